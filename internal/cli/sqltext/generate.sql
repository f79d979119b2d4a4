-- {prefix}id() returns a new ID of worker {worker}, in the layout
-- {layout}
--
--   CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT {schema}.{prefix}id(), ...);
--
-- The roles that insert need these rights, anew if you change the worker ID:
--
{grants}--
-- {about}
-- One database at a time may have worker {worker}. After a restore, or a failover that lost commits,
-- generate this script anew with another worker ID. Or set the state above the greatest ID of this
-- worker that anybody has seen:
--
--   BEGIN;
--   SELECT pg_advisory_xact_lock(1936617335, '{sequence}'::regclass::oid::int);
--   SELECT pg_catalog.setval('{sequence}'::regclass, ((THE_ID >> {shift}) + 1) << 22) FROM {sequence}
--     WHERE last_value < ((THE_ID >> {shift}) + 1) << 22;
--   COMMIT;
--
-- You may run the script again. It waits for the open transactions that have drawn an ID.

-- Nobody may run code of theirs as the role that inserts. So each call below has a function or an
-- operator of pg_catalog with exactly its types, which PostgreSQL prefers: constants have a type.

DO $$
DECLARE
  other regnamespace;
BEGIN
  SELECT relnamespace INTO other FROM pg_catalog.pg_class
    WHERE relname = '{name}' AND relkind = 'S' AND relnamespace <> '{schema}'::regnamespace::oid;
  IF FOUND THEN
    RAISE EXCEPTION 'schema % has a state of worker {worker}, and two would repeat IDs', other
      USING HINT = 'Take another --worker, or the --schema that has the state.';
  END IF;
END $$;

-- The state is tick<<22|n: the tick of the last ID, and its number in the tick. It never falls. The
-- numbers have more room than they need, so no draw carries into a tick that is being opened.
CREATE SEQUENCE IF NOT EXISTS {sequence} MINVALUE 0 START 0;
ALTER SEQUENCE {sequence} INCREMENT 1 MINVALUE 0 MAXVALUE {max} CACHE 1 NO CYCLE;

-- {prefix}open(above) opens a tick after the tick above, and draws its first ID. An exception always
-- ends the inner block. So the lock ends with it, also if the call is canceled; setval stays.
CREATE OR REPLACE FUNCTION {schema}.{prefix}open(above bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  micros bigint;  -- since the epoch
  tick   bigint;  -- of the clock
  next   bigint;  -- the tick to open
  state  bigint;
  drawn  bigint;
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
      SELECT last_value INTO state FROM {sequence};
      IF state >> 22 BETWEEN greatest(tick, above + 1) AND tick + {ahead} AND state & bigint '4194303' < {last} THEN
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
