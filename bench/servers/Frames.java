// SPDX-License-Identifier: MIT
// A message broker in Java, as its memory outside the Java heap is: 16 threads take frames of 1 to 256
// KiB into direct buffers, compress every second one and cache the last 40 of each thread, in four
// generations of threads. When the load ends nothing is referenced any more and the garbage is
// collected, then nothing happens until standard input ends.
//
//     java Frames FRAMES          (of all threads together)
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.Deflater;

public final class Frames {
    private static final int THREADS = 16;
    private static final int GENERATIONS = 4;
    private static final int KEPT = 40;
    private static final int SMALLEST = 10; // powers of two
    private static final int DOUBLINGS = 8;
    private static final AtomicLong BYTES = new AtomicLong();

    private static ByteBuffer frame(Random random) {
        ByteBuffer frame = ByteBuffer.allocateDirect((1 << SMALLEST) << random.nextInt(DOUBLINGS));
        while (frame.remaining() >= Long.BYTES) {
            frame.putLong(random.nextInt(1000));
        }
        frame.flip();
        return frame;
    }

    private static ByteBuffer compressed(ByteBuffer frame) {
        Deflater deflater = new Deflater(Deflater.BEST_SPEED); // its state is in memory of malloc
        try {
            ByteBuffer packed = ByteBuffer.allocateDirect(frame.remaining() + 64);
            deflater.setInput(frame);
            deflater.finish();
            deflater.deflate(packed);
            packed.flip();
            return packed;
        } finally {
            deflater.end();
        }
    }

    private static void serve(long seed, int frames) {
        Random random = new Random(seed);
        ArrayDeque<ByteBuffer> kept = new ArrayDeque<>();
        for (int number = 0; number < frames; number++) {
            ByteBuffer frame = frame(random);
            kept.add(number % 2 == 0 ? compressed(frame) : frame);
            if (kept.size() > KEPT) {
                BYTES.addAndGet(kept.remove().remaining());
            }
        }
    }

    public static void main(String[] words) throws Exception {
        int each = Math.max(KEPT + 1, Integer.parseInt(words[0]) / THREADS / GENERATIONS);
        for (int generation = 0; generation < GENERATIONS; generation++) {
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < THREADS; number++) {
                long seed = generation * THREADS + number;
                threads.add(new Thread(() -> serve(seed, each)));
            }
            for (Thread thread : threads) {
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        if (BYTES.get() == 0) {
            throw new IllegalStateException("a thread kept nothing");
        }
        for (int round = 0; round < 3; round++) { // cleaners run between two collections
            System.gc();
            Thread.sleep(50);
        }
        System.out.println("load ended");
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
