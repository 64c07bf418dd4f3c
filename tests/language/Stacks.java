// SPDX-License-Identifier: MIT
// Calls of many kinds, each of which tells the machine's own stack trace and then takes a block;
// afterwards the traces are printed, each with its count.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

public class Stacks {
    interface Shape {
        int area(int x);
    }

    static class Plain implements Shape {
        @Override
        public int area(int x) {
            return seldom(x);
        }
    }

    static class Derived extends Plain {
        @Override
        public int area(int x) {
            return super.area(x)
                + 2;
        }
    }

    static class Node {
        private final Node next;

        Node(int depth) {
            next = depth > 0 ? new Node(depth - 1) : null;
            seldom(0);
        }
    }

    static final int BLOCK_BYTES = 65536;
    static final Map<String, Integer> told = new HashMap<>();
    static final List<ByteBuffer> kept = new ArrayList<>();
    static final Random chance = new Random(7);

    static synchronized int tell() {
        StringBuilder text = new StringBuilder();
        StackTraceElement[] frames = new Throwable().getStackTrace();
        for (int at = 1; at < frames.length; at++) {
            text.append(frames[at].getFileName()).append(':').append(frames[at].getLineNumber())
                .append(' ').append(frames[at].getClassName()).append('.')
                .append(frames[at].getMethodName()).append('|');
        }
        told.merge(text.toString(), 1, Integer::sum);
        return BLOCK_BYTES;
    }

    static synchronized void keep(ByteBuffer block) {
        kept.add(block);
    }

    static void take() {
        keep(ByteBuffer.allocateDirect(tell()));
    }

    public static int seldom(int x) {
        if ((x & 1023) == 0) {
            take();
        }
        return x + 1;
    }

    static int descend(int depth, IntUnaryOperator last) {
        return depth == 0 ? last.applyAsInt(0) : descend(depth - 1, last) + 1;
    }

    static int handle(int x) {
        try {
            if (x % 3 == 0) {
                throw new IllegalStateException();
            }
            return seldom(0);
        } catch (IllegalStateException error) {
            return seldom(0);
        } finally {
            seldom(0);
        }
    }

    static int lock(int x) {
        synchronized (chance) {
            return seldom(x);
        }
    }

    static long work(int rounds) throws Exception {
        Shape[] shapes = {new Plain(), new Derived(), x -> seldom(x) + 3};
        long sum = 0;
        for (int round = 0; round < rounds; round++) {
            sum += shapes[round % shapes.length].area(round);
            sum += lock(round);
            if ((round & 4095) == 0) {
                int offset = round;
                sum += descend(chance.nextInt(30), x -> seldom(x + offset));
                sum += new Node(chance.nextInt(4)).hashCode();
                sum += handle(round);
                sum += IntStream.range(0, 3).map(x -> seldom(x << 10)).sum();
                sum += (Integer) Stacks.class.getMethod("seldom", int.class).invoke(null, 0);
                List<Integer> list = new ArrayList<>(List.of(3, 1, 2));
                list.sort((a, b) -> seldom(0) + a - b);
            }
        }
        return sum;
    }

    public static void main(String[] words) throws Exception {
        Thread[] threads = new Thread[2];
        for (int at = 0; at < threads.length; at++) {
            threads[at] = new Thread(() -> {
                try {
                    work(Integer.parseInt(words[0]));
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            threads[at].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        told.forEach((trace, count) -> System.out.println(count + " " + trace));
    }
}
