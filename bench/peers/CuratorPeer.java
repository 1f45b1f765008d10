import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Curator's InterProcessMutex, driven by the same lines as the sides of `src/contest/side.rs`. */
public class CuratorPeer {
    static final int TTL_MS = 30_000;
    static CuratorFramework client;

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0].substring("zookeeper://".length());
        String path = "/curator/" + arguments[1];
        client = CuratorFrameworkFactory.newClient(servers, TTL_MS, TTL_MS, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("lock")) {
                mutex.acquire();
                System.out.println(System.nanoTime() + " 0");
            } else if (words[0].equals("release")) {
                long now = System.nanoTime();
                mutex.release();
                System.out.println(now);
            } else if (words[0].equals("free")) {
                System.out.println(free(path + "-free", Double.parseDouble(words[1])));
            } else {
                int tasks = Integer.parseInt(words[1]);
                boolean own = words[2].equals("own");
                System.out.println(turns(path + "-turns", tasks, own, Double.parseDouble(words[3])));
            }
        }
        System.exit(0);
    }

    /** The time of a lock and a release in ns, one after the other. */
    static long free(String path, double seconds) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        long start = System.nanoTime();
        long now = start;
        long count = 0;
        while (now < start + seconds * 1e9) {
            mutex.acquire();
            mutex.release();
            count++;
            now = System.nanoTime();
        }
        return (now - start) / count;
    }

    /** The longest wait, the overlaps and the turns of each task, as threads take them. */
    static String turns(String path, int tasks, boolean own, double seconds) throws Exception {
        long[] counts = new long[tasks];
        long[] longest = new long[tasks];
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger overlaps = new AtomicInteger();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        Thread[] threads = new Thread[tasks];
        for (int at = 0; at < tasks; at++) {
            int task = at;
            threads[at] = new Thread(() -> {
                try {
                    InterProcessMutex mutex = new InterProcessMutex(client, own ? path + "-" + task : path);
                    for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
                        mutex.acquire();
                        long held = System.nanoTime();
                        longest[task] = Math.max(longest[task], held - asked);
                        if (!own) {
                            overlaps.addAndGet(inside.getAndIncrement() > 0 ? 1 : 0);
                            Thread.yield();
                            inside.getAndDecrement();
                        }
                        counts[task] += held < end ? 1 : 0;
                        mutex.release();
                    }
                } catch (Exception failure) {
                    throw new RuntimeException(failure);
                }
            });
            threads[at].start();
        }
        long most = 0;
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < tasks; at++) {
            threads[at].join();
            most = Math.max(most, longest[at]);
            text.append(' ').append(counts[at]);
        }
        return most + " " + overlaps.get() + text;
    }
}
