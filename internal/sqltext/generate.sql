-- {prefix}id() returns a new ID of worker {worker}, in the layout
-- {layout}
--
--   CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT {schema}.{prefix}id(), ...);
--
-- The roles that insert need these rights, anew if you change the worker ID:
--
{grants}--
-- {about}
-- One database at a time may have worker {worker}. If you dump the database, give pg_dump the option
-- --no-unlogged-table-data: then IDs of the restored one begin 10 s ahead of the clock. After a
-- restore, or a failover that lost commits, generate this script anew with another worker ID. Or put
-- the state above the greatest ID of this worker that anybody has seen:
--
--   BEGIN;
--   SELECT pg_advisory_xact_lock(1936617335, '{sequence}'::regclass::oid::int);
--   SELECT pg_catalog.setval('{bound}'::regclass, greatest(last_value, bigint 'THE_ID' >> {shift}), false) FROM {bound};
--   SELECT pg_catalog.setval('{sequence}'::regclass, bigint '{empty}');
--   COMMIT;
--
-- You may run the script again, also in a transaction that is rolled back: it leaves the state alone.

-- Nobody may run code of theirs as the role that inserts. So each call below has a function or an
-- operator of pg_catalog with exactly its types, which PostgreSQL prefers: constants have a type.

DO $$
BEGIN
  IF current_setting(text 'server_version_num')::int < 150000 THEN
    RAISE EXCEPTION 'the state of worker {worker} needs PostgreSQL 15 or later';
  END IF;
END $$;

-- The state is tick<<22|n: the tick of the last ID, and its number in the tick. It never falls while
-- the server runs. The numbers have more room than they need, so no draw carries into a tick that is
-- being opened.
--
-- The server writes a sequence to disk when a transaction commits, or later, so a crash would set the
-- state back. But the sequence is unlogged: a crash, a restore and a promotion empty it. Then it is
-- negative, and IDs begin above the bound, which is on disk before a tick below it is opened. Until
-- then the bound is the number of the transaction that made it, negated.
--
-- Nothing here alters a sequence that exists: the change could be rolled back, and with it the IDs
-- that were drawn in between.
DO $$
DECLARE
  layout text;
  other  regnamespace;
BEGIN
  -- Until the transaction ends, nobody makes a state of the worker in another schema.
  PERFORM pg_catalog.pg_advisory_xact_lock(1936617335, pg_catalog.hashtext(text '{name}'));
  SELECT relnamespace INTO other FROM pg_catalog.pg_class
    WHERE relname = '{name}' AND relkind = 'S' AND relnamespace <> '{schema}'::regnamespace::oid;
  IF FOUND THEN
    RAISE EXCEPTION 'schema % has a state of worker {worker}, and two would repeat IDs', other
      USING HINT = 'Take another --worker, or the --schema that has the state.';
  END IF;
  layout := pg_catalog.obj_description(pg_catalog.to_regclass(text '{sequence}')::oid, name 'pg_class');
  IF pg_catalog.to_regclass(text '{sequence}') IS NULL THEN
    CREATE UNLOGGED SEQUENCE {sequence} MINVALUE {empty} START {empty} MAXVALUE {max};
    CREATE SEQUENCE {bound} MINVALUE -9223372036854775807 START -1;
    PERFORM pg_catalog.setval('{bound}'::regclass, - pg_catalog.txid_current(), false);
    COMMENT ON SEQUENCE {sequence} IS '{layout}';
  ELSIF layout IS DISTINCT FROM text '{layout}' THEN
    RAISE EXCEPTION 'the state of worker {worker} is not of the layout {layout}, but of: %', layout
      USING HINT = 'Take another --worker.';
  ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_sequence JOIN pg_catalog.pg_class ON pg_class.oid = seqrelid
      WHERE seqrelid = '{sequence}'::regclass::oid AND relpersistence = 'u' AND seqincrement = bigint '1'
      AND seqmin = bigint '{empty}' AND seqmax = bigint '{max}' AND seqcache = bigint '1' AND NOT seqcycle) THEN
    RAISE EXCEPTION 'somebody has altered the sequence {sequence}, so a crash of the server could repeat IDs'
      USING HINT = 'Take another --worker.';
  END IF;
END $$;

-- {prefix}open(above) opens a tick after the tick above, and draws its first ID. An exception always
-- ends the inner block. So the lock ends with it, also if the call is canceled; setval stays.
CREATE OR REPLACE FUNCTION {schema}.{prefix}open(above bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET default_tablespace = '' AS $$
DECLARE
  micros  bigint;   -- since the epoch
  tick    bigint;   -- of the clock
  next    bigint;   -- the tick to open
  state   bigint;
  bound   bigint;   -- no tick that was opened reaches it
  saved   boolean;  -- whether the bound is on disk
  written pg_lsn;   -- the end of the WAL that has the bound
  drawn   bigint;
BEGIN
  LOOP
    drawn := NULL;
    BEGIN
      PERFORM pg_advisory_xact_lock(1936617335, '{sequence}'::regclass::oid::int);
      micros := {micros};
      tick := {tick};
      IF micros < 0 THEN
        RAISE EXCEPTION 'the clock is before the epoch of the IDs, {epoch}'
          USING ERRCODE = 'SNF02', HINT = 'Set the clock right.';
      END IF;
      SELECT s.last_value, b.last_value, b.is_called INTO state, bound, saved FROM {sequence} AS s, {bound} AS b;
      IF state < 0 THEN
        IF bound = - txid_current() THEN
          RAISE EXCEPTION 'this transaction has made the state of worker {worker}, and a rollback would lose the state'
            USING ERRCODE = 'SNF06', HINT = 'Commit it before you draw an ID.';
        END IF;
        -- A new state begins at the clock. IDs of a state that was emptied may be ahead of the clock, also
        -- if a replica that is promoted has not received the last bound. The tick before the first is full.
        state := pg_catalog.setval('{sequence}'::regclass,
          least(bigint '{lastTick}', CASE WHEN bound < 0 THEN tick - 1 ELSE greatest(tick + {ahead} - 1, bound) END) << 22 | bigint '{full}');
      ELSIF state >> 22 BETWEEN greatest(tick, above + 1) AND tick + {ahead} AND state & bigint '4194303' < {last} THEN
        drawn := pg_catalog.nextval('{sequence}'::regclass);  -- another session has opened a tick
        RAISE EXCEPTION USING ERRCODE = 'SNF05';
      END IF;
      -- If half of the numbers are drawn, a draw may carry before setval: leave a tick out.
      next := greatest(tick, above + 1, (state >> 22) + 1 + ((state >> 21) & bigint '1'));
      IF next > {lastTick} THEN
        RAISE EXCEPTION 'the IDs have run out of time'
          USING ERRCODE = 'SNF03', HINT = 'The layout ends at {expires}.';
      ELSIF next > tick + {ahead} + {patience} THEN
        RAISE EXCEPTION 'the clock is % s behind the next ID, and may be {allowed} s behind', round((next - tick)::numeric * numeric '{seconds}', 3)
          USING ERRCODE = 'SNF04', HINT = '{hint}';
      ELSIF next <= tick + {ahead} THEN
        IF next >= bound OR NOT saved THEN
          bound := pg_catalog.setval('{bound}'::regclass, greatest(bound, tick + {ahead}, next + {reserve}), false);
          written := pg_current_wal_insert_lsn();
          IF current_setting('server_version_num')::int >= 170000 THEN
            PERFORM pg_logical_emit_message(false, 'snowflake', '', true);
          ELSE
            -- Nothing else that a function may do flushes the WAL: TRUNCATE does if the transaction has
            -- made the table, and the table has a free space map. The exception removes the table.
            CREATE TABLE {schema}.{name}_flush (n bigint) USING heap;
            INSERT INTO {schema}.{name}_flush SELECT generate_series(1, 300);
            TRUNCATE {schema}.{name}_flush;
          END IF;
          IF pg_current_wal_flush_lsn() < written THEN
            RAISE EXCEPTION 'this server does not write the bound of the IDs to disk'
              USING ERRCODE = 'SNF07', HINT = 'In PostgreSQL 15 and 16, wal_level must not be minimal.';
          END IF;
          PERFORM pg_catalog.setval('{bound}'::regclass, bound, true);
        END IF;
        drawn := pg_catalog.setval('{sequence}'::regclass, next << 22);
      END IF;
      RAISE EXCEPTION USING ERRCODE = 'SNF05';
    EXCEPTION WHEN SQLSTATE 'SNF05' THEN
    END;
    IF drawn & bigint '4194303' <= {last} THEN
      RETURN drawn;
    ELSIF drawn IS NULL THEN  -- the numbers of the ticks up to {allowed} s ahead of the clock are drawn
      PERFORM pg_sleep((next - tick - {ahead})::float8 * float8 '{seconds}');
    END IF;
  END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION {schema}.{prefix}open(bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION {schema}.{prefix}id() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
{mark}  micros bigint := {micros};
  tick   bigint := {tick};
  state  bigint := pg_catalog.nextval('{sequence}'::regclass);
BEGIN
  IF micros < 0 OR state >> 22 NOT BETWEEN {least} AND tick + {ahead} OR state & bigint '4194303' > {last} THEN
    state := {schema}.{prefix}open({above});
  END IF;
  RETURN {id};
END $$;

-- {prefix}ids(n) returns n new IDs.
CREATE OR REPLACE FUNCTION {schema}.{prefix}ids(n integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE AS
$$ SELECT {schema}.{prefix}id() FROM generate_series(1, n) $$;
