-- SPDX-License-Identifier: MIT
-- Tables in memory and on disk, joins, window functions, JSON, an index build and a vacuum.
PRAGMA temp_store = MEMORY;
CREATE TABLE numbers (n INTEGER PRIMARY KEY, name TEXT, part INTEGER);
WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 80000)
INSERT INTO numbers SELECT n, printf('name %05d %x', n * 7919 % 80021, n), n % 97 FROM count;
CREATE INDEX by_name ON numbers (name, part);
SELECT part, count(*), min(name), max(name) FROM numbers GROUP BY part ORDER BY part LIMIT 10;
SELECT n, sum(part) OVER (ORDER BY name ROWS 20 PRECEDING) FROM numbers ORDER BY n DESC LIMIT 10;
SELECT count(*) FROM numbers a JOIN numbers b ON b.n = a.n * 2 WHERE b.name > a.name;
SELECT length(json_group_array(json_object('n', n, 'name', name))) FROM numbers WHERE n <= 20000;
CREATE TEMP TABLE sorted AS SELECT * FROM numbers ORDER BY part, name DESC;
SELECT group_concat(name, '|') FROM (SELECT name FROM sorted LIMIT 20);
DELETE FROM numbers WHERE n % 3 = 0;
VACUUM;
PRAGMA integrity_check;
