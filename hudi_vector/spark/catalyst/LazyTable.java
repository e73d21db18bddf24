package org.apache.hudi.vector;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * A table whose rows Python makes when the statement that reads it is planned. Spark asks a table some twenty questions
 * in a statement, each of which would be a call into Python; only the rows are one. Janino compiles this file when a
 * session first needs it (relation.py): no generics, no lambdas, a cast where Java would infer a type.
 */
public final class LazyTable implements SupportsRead, SupportsMetadataColumns {
  private final SparkSession session;
  private final String name;
  private final StructType visible;
  private final StructType hidden;
  private final Function produce;
  private final Callable describe;

  private LazyTable(
      SparkSession session, String name, StructType visible, StructType hidden, Function produce, Callable describe) {
    this.session = session;
    this.name = name;
    this.visible = visible;
    this.hidden = hidden;
    this.produce = produce;
    this.describe = describe;
  }

  /** What Python calls: py4j finds an object's methods, but not a class that another loader has loaded. */
  public static final class Maker {
    /**
     * A relation with these columns; hidden ones are absent from SELECT *, but can be named. `produce` makes rows from
     * the text of `asked`, `describe` a text for EXPLAIN.
     */
    public LogicalPlan relation(
        SparkSession session,
        String name,
        StructType visible,
        StructType hidden,
        Function produce,
        Callable describe) {
      LazyTable table = new LazyTable(session, name, visible, hidden, produce, describe);
      return DataSourceV2Relation.create(
          table, scala.Option.empty(), scala.Option.empty(), CaseInsensitiveStringMap.empty());
    }
  }

  public String name() {
    return name;
  }

  public StructType schema() {
    return visible;
  }

  public Set capabilities() {
    return Collections.singleton(TableCapability.BATCH_READ);
  }

  public MetadataColumn[] metadataColumns() {
    StructField[] fields = hidden.fields();
    MetadataColumn[] columns = new MetadataColumn[fields.length];
    for (int i = 0; i < fields.length; i++) {
      columns[i] = new HiddenColumn(fields[i]);
    }
    return columns;
  }

  public boolean canRenameConflictingMetadataColumns() {
    return true;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new LazyScan(this);
  }

  private static final class HiddenColumn implements MetadataColumn {
    private final StructField field;

    HiddenColumn(StructField field) {
      this.field = field;
    }

    public String name() {
      return field.name();
    }

    public DataType dataType() {
      return field.dataType();
    }
  }

  private static final class LazyScan implements SupportsPushDownRequiredColumns, LocalScan {
    private final LazyTable table;
    private StructType columns;
    private String execution;
    private InternalRow[] made;
    private RuntimeException failed;

    LazyScan(LazyTable table) {
      this.table = table;
      this.columns = table.visible;
    }

    /** Whole structs, even if Spark requests only some of their fields. */
    public void pruneColumns(StructType required) {
      String[] names = required.fieldNames();
      StructField[] whole = new StructField[names.length];
      for (int i = 0; i < names.length; i++) {
        StructType side = table.visible.getFieldIndex(names[i]).isDefined() ? table.visible : table.hidden;
        whole[i] = side.apply(names[i]);
      }
      columns = new StructType(whole);
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return columns;
    }

    public String description() {
      try {
        return (String) table.describe.call();
      } catch (RuntimeException problem) {
        throw problem;
      } catch (Exception problem) {
        throw new IllegalStateException(problem);
      }
    }

    /**
     * The rows, or the failure to make them, once for each execution: adaptive execution plans the rest of a statement
     * again, and Spark plans a statement again to run it where it failed to explain its plan.
     */
    public InternalRow[] rows() {
      String current = table.session.sparkContext().getLocalProperty("spark.sql.execution.id");
      if (isExplained(current)) {
        return new InternalRow[0];
      }
      if (current == null || !current.equals(execution)) {
        made = null;
        failed = null;
        try {
          made = produced(current == null ? "" : current);
        } catch (RuntimeException problem) {
          failed = problem;
        }
        execution = current;
      }
      if (failed != null) {
        throw failed;
      }
      return made;
    }

    /** All that Python would ask for: the columns, the statement, the session's time zone and its settings. */
    private String asked(String current) {
      SQLConf conf = table.session.sessionState().conf();
      String settings = conf.getAllConfs().mkString("\u001e");
      return columns.json() + "\u001f" + current + "\u001f" + conf.sessionLocalTimeZone() + "\u001f" + settings;
    }

    private InternalRow[] produced(String current) {
      try {
        Object found = table.produce.call(asked(current));
        return found instanceof byte[] ? unsafeRows((byte[]) found, columns.length()) : (InternalRow[]) found;
      } catch (RuntimeException problem) {
        throw problem;
      } catch (Exception problem) {
        throw new IllegalStateException(problem);
      }
    }

    /** The rows of unsafe_rows.py, each after its length; they share their bytes, and the scan copies each row. */
    private static InternalRow[] unsafeRows(byte[] bytes, int columns) {
      ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
      List rows = new ArrayList();
      while (words.hasRemaining()) {
        int size = (int) words.getLong();
        UnsafeRow row = new UnsafeRow(columns);
        row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + words.position(), size);
        words.position(words.position() + size);
        rows.add(row);
      }
      return (InternalRow[]) rows.toArray(new InternalRow[rows.size()]);
    }

    /**
     * Whether the plan is made only to be shown, by EXPLAIN or DataFrame.explain. Spark also explains the plan of every
     * execution for its listeners, but only after the execution has its id.
     */
    private static boolean isExplained(String execution) {
      StackTraceElement[] stack = new Throwable().getStackTrace();
      for (int i = 0; i < stack.length; i++) {
        boolean isShown = execution == null && stack[i].getMethodName().contains("explainString");
        if (isShown || stack[i].getClassName().contains("ExplainCommand")) {
          return true;
        }
      }
      return false;
    }
  }
}
