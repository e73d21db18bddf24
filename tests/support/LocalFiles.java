package support;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's files of this machine, whose permissions Java sets: Hadoop runs chmod for each file that it makes. */
public class LocalFiles extends RawLocalFileSystem {
    /** Has all that opens files of this machine from now on, with these settings or others, open these. */
    public static void use(Configuration settings) throws Exception {
        URI root = URI.create("file:///");
        FileSystem own = new LocalFileSystem(new LocalFiles());
        own.initialize(root, settings);
        Method add =
                FileSystem.class.getDeclaredMethod(
                        "addFileSystemForTesting",
                        new Class[] {URI.class, Configuration.class, FileSystem.class});
        add.setAccessible(true);
        add.invoke(null, new Object[] {root, settings, own});
    }

    public void setPermission(Path path, FsPermission permission) throws IOException {
        String text = new FsPermission((short) (permission.toShort() & 0777)).toString();
        Files.setPosixFilePermissions(this.pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
    }
}
