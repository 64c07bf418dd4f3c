// SPDX-License-Identifier: MIT
// A virtual thread, of Java 21 and later; before that a thread. It waits while it has a deep stack.
import java.nio.ByteBuffer;

public class InVirtual {
    static void leakVirtual(int depth) throws InterruptedException {
        if (depth != 0) {
            leakVirtual(depth - 1);
            return;
        }
        for (int at = 0; at < Turns.BLOCKS; at++) {
            Thread.sleep(1);
            Turns.keep(ByteBuffer.allocateDirect(Turns.BLOCK_BYTES)); // PLANTED InVirtual.leakVirtual
        }
    }

    static void task() {
        try {
            leakVirtual(100);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void step() throws Exception {
        Runnable task = InVirtual::task;
        Thread thread;
        try {
            thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                .invoke(null, task);
        } catch (ReflectiveOperationException error) { // an older Java, or one with previews
            thread = new Thread(task);
            thread.start();
        }
        thread.join();
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InVirtual::step);
    }
}
