// SPDX-License-Identifier: MIT
// A class with a loader of its own, which allocates while it is initialised; a new one each time.
import java.io.InputStream;
import java.nio.ByteBuffer;

public class InLoader {
    public static class Loaded {
        static {
            Turns.keep(
                ByteBuffer.allocateDirect(100_000)); // PLANTED InLoader$Loaded.<clinit>
        }
    }

    static class Loader extends ClassLoader {
        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.equals("InLoader$Loaded")) {
                return super.loadClass(name, resolve);
            }
            try (InputStream file = InLoader.class.getResourceAsStream("InLoader$Loaded.class")) {
                byte[] bytes = file.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (java.io.IOException error) {
                throw new ClassNotFoundException(name, error);
            }
        }
    }

    static void step() throws Exception {
        for (int at = 0; at < Turns.BLOCKS; at++) {
            Class.forName("InLoader$Loaded", true, new Loader());
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InLoader::step);
    }
}
