// SPDX-License-Identifier: MIT
// What the planted programs share, as turns.py: a step once, or, live, at each x of the input.
// A program has one line that takes memory of malloc, with PLANTED and the method's name at its end.
// Runs on Java 11 and later.
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;

public class Turns {
    interface Step {
        void run() throws Exception;
    }

    static final int BLOCK_BYTES = 100_000;
    static final int BLOCKS = 150; // of a step
    static final List<Object> kept = new ArrayList<>();

    public static synchronized void keep(Object block) {
        kept.add(block);
    }

    /** Makes the library read the clock. */
    static void churn() {
        for (int at = 0; at < 100; at++) {
            new Deflater().end();
        }
    }

    static void run(String[] words, Step step) throws Exception {
        if (words.length == 0) {
            step.run();
            return;
        }
        System.out.println(1);
        for (int word = System.in.read(); word > 0; word = System.in.read()) {
            if (word == 'x') {
                step.run();
            } else {
                churn();
            }
            System.out.println(2);
        }
    }
}
