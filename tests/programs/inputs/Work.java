// SPDX-License-Identifier: MIT
// What Java programs do to the native heap: threads, compilation, buffers off the Java heap, zip.
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.GZIPOutputStream;

public class Work {
    static long work(int seed) throws Exception {
        Map<String, List<Integer>> map = new HashMap<>();
        for (int i = 0; i < 60000; i++) {
            map.computeIfAbsent("key " + (i * 7919 + seed) % 5003, k -> new ArrayList<>()).add(i);
        }
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        CRC32 crc = new CRC32();
        try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
            for (int i = 0; i < 5003; i++) {
                byte[] bytes = String.valueOf(map.get("key " + i)).getBytes("UTF-8");
                out.write(bytes);
                crc.update(bytes);
            }
        }
        ByteBuffer[] buffers = new ByteBuffer[200];
        for (int i = 0; i < buffers.length; i++) {
            buffers[i] = ByteBuffer.allocateDirect(1000 + i * 997);
            buffers[i].putLong(i * 8, crc.getValue());
        }
        return crc.getValue() + packed.size() + buffers[7].getLong(56);
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            final int seed = i;
            results.add(pool.submit(() -> work(seed)));
        }
        StringBuilder line = new StringBuilder("threads:");
        for (Future<Long> result : results) {
            line.append(' ').append(result.get());
        }
        pool.shutdown();
        System.out.println(line);
    }
}
