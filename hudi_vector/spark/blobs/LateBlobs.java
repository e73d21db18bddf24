package org.apache.hudi.vector;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.collection.Seq;

/**
 * A rule of Spark's optimizer: of `ORDER BY ... LIMIT n`, only the n rows have their blobs read, and no blob is sorted.
 * Spark by itself reads below the sort what a SELECT with both reads, and moves there what is selected from a subquery
 * with both. Janino compiles this file (late.py): no generics, no lambdas, a cast where Java would infer a type.
 */
public final class LateBlobs extends Rule {
  private static final List READS = Arrays.asList(new String[] {"read_blob", "try_read_blob", "read_blobs"});
  // One task has all rows that a limit leaves; more of them are better read by many tasks.
  private static final int MOST = 10000;

  /** Add the rule to a session that does not have it yet. */
  public void install(SparkSession session) {
    Seq known = session.experimental().extraOptimizations();
    if (!known.contains(this)) {
      ArrayList rules = new ArrayList((List) JavaConverters.seqAsJavaListConverter(known).asJava());
      rules.add(this);
      session.experimental().extraOptimizations_$eq(sequence(rules));
    }
  }

  public TreeNode apply(TreeNode plan) {
    return rewritten((LogicalPlan) plan);
  }

  private static LogicalPlan rewritten(LogicalPlan plan) {
    LogicalPlan made = plan instanceof GlobalLimit ? late((GlobalLimit) plan) : plan;
    ArrayList children = new ArrayList();
    for (Iterator each = made.children().iterator(); each.hasNext(); ) {
      children.add(rewritten((LogicalPlan) each.next()));
    }
    return (LogicalPlan) over(made, children);
  }

  /** The plan with all that reads blobs above the limit, if rows are sorted by none of it. */
  private static LogicalPlan late(GlobalLimit limit) {
    ArrayList later = new ArrayList();
    boolean isFound = false;
    Offset offset = null;
    long most = number(limit.limitExpr());
    LogicalPlan node = limit.child();
    for (; ; node = below(node)) {
      if (isOfRows(node)) {
        later.add(node);
        isFound |= isRead(node);
      } else if (node instanceof Offset && offset == null) {
        offset = (Offset) node;
        most += number(offset.offsetExpr());
      } else if (!(node instanceof LocalLimit) || number(((LocalLimit) node).limitExpr()) != most) {
        break;
      }
    }
    if (most > MOST || !(node instanceof Sort) || !((Sort) node).global()) {
      return limit;
    }
    Sort sort = (Sort) node;
    Seq order = sort.order();
    ArrayList passed = new ArrayList();
    for (node = sort.child(); isOfRows(node); node = below(node)) {
      passed.add(node);
      if (node instanceof Project) {
        order = asComputed(order, (Project) node);
      } else {
        Sort moved = new Sort(order, true, below(node));
        if (moved.missingInput().isEmpty()) {
          sort = moved;
          later.addAll(passed);
          passed.clear();
          isFound = true;
        }
      }
    }
    if (!isFound) {
      return limit;
    }
    LogicalPlan few = new LocalLimit(Literal$.MODULE$.apply(Integer.valueOf((int) most)), sort);
    LogicalPlan made = new GlobalLimit(limit.limitExpr(), offset == null ? few : (LogicalPlan) over(offset, few));
    for (int place = later.size() - 1; place >= 0; place--) {
      made = (LogicalPlan) over((LogicalPlan) later.get(place), made);
    }
    return made;
  }

  /** An order by columns of a projection as one by what they are computed of. */
  private static Seq asComputed(Seq order, Project project) {
    ArrayList made = new ArrayList();
    for (Iterator each = order.iterator(); each.hasNext(); ) {
      made.add(asComputed((Expression) each.next(), project));
    }
    return sequence(made);
  }

  private static Expression asComputed(Expression expression, Project project) {
    if (expression instanceof AttributeReference) {
      for (Iterator each = project.projectList().iterator(); each.hasNext(); ) {
        Object named = each.next();
        if (named instanceof Alias && ((Alias) named).exprId().equals(((AttributeReference) expression).exprId())) {
          return ((Alias) named).child();
        }
      }
      return expression;
    }
    ArrayList children = new ArrayList();
    for (Iterator each = expression.children().iterator(); each.hasNext(); ) {
      children.add(asComputed((Expression) each.next(), project));
    }
    return (Expression) over(expression, children);
  }

  /** The number that a limit or an offset gives, which is an INT; a very large one where it is no literal. */
  private static long number(Expression rows) {
    return rows instanceof Literal ? ((Integer) ((Literal) rows).value()).longValue() : 1L << 40;
  }

  /** Whether a node makes one row of each row, the same one whichever others there are. */
  private static boolean isOfRows(LogicalPlan node) {
    return node instanceof Project ? node.deterministic() : isRead(node);
  }

  private static boolean isRead(LogicalPlan node) {
    if (!(node instanceof ArrowEvalPython)) {
      return false;
    }
    for (Iterator each = ((ArrowEvalPython) node).udfs().iterator(); each.hasNext(); ) {
      PythonUDF function = (PythonUDF) each.next();
      if (!function.udfDeterministic() || !READS.contains(function.name())) {
        return false;
      }
    }
    return true;
  }

  private static LogicalPlan below(LogicalPlan node) {
    return (LogicalPlan) node.children().head();
  }

  private static TreeNode over(TreeNode node, TreeNode child) {
    return over(node, new ArrayList(Arrays.asList(new Object[] {child})));
  }

  private static TreeNode over(TreeNode node, ArrayList children) {
    return children.isEmpty() ? node : node.withNewChildren(sequence(children));
  }

  private static Seq sequence(ArrayList items) {
    return ((scala.collection.mutable.Buffer) JavaConverters.asScalaBufferConverter(items).asScala()).toList();
  }
}
