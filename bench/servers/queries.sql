-- SPDX-License-Identifier: MIT
-- For pgbench: one request of a report, whose size varies. Nothing is stored.
\set rows random_exponential(200, 60000, 3)
\set kind random(1, 4)
\if :kind = 1
SELECT count(*) FROM (SELECT md5(n::text) AS name, count(*) FROM generate_series(1, :rows) n GROUP BY 1) groups;
\elif :kind = 2
SELECT length(string_agg(name, ',' ORDER BY name)) FROM (SELECT md5(n::text) AS name FROM generate_series(1, :rows) n) names;
\elif :kind = 3
SELECT length(jsonb_agg(jsonb_build_object('id', n, 'text', repeat('x & y ', n % 20)))::text) FROM generate_series(1, :rows / 4) n;
\else
SELECT sum(n) FROM unnest((SELECT array_agg(n * 7919 % 100003) FROM generate_series(1, :rows) n)) n;
\endif
