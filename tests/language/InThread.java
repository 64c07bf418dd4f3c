// SPDX-License-Identifier: MIT
// A thread, beside threads that allocate without end.
import java.nio.ByteBuffer;
import java.util.zip.Deflater;

public class InThread {
    private static volatile boolean isOver;

    static void leakInThread() {
        for (int at = 0; at < Turns.BLOCKS; at++) {
            Turns.keep(ByteBuffer.allocateDirect(Turns.BLOCK_BYTES)); // PLANTED InThread.leakInThread
        }
    }

    static void churn() {
        while (!isOver) {
            new Deflater().end();
        }
    }

    static void step() throws Exception {
        Thread[] busy = new Thread[3];
        isOver = false;
        for (int at = 0; at < busy.length; at++) {
            busy[at] = new Thread(InThread::churn);
            busy[at].start();
        }
        Thread thread = new Thread(InThread::leakInThread);
        thread.start();
        thread.join();
        isOver = true;
        for (Thread one : busy) {
            one.join();
        }
    }

    public static void main(String[] words) throws Exception {
        Turns.run(words, InThread::step);
    }
}
