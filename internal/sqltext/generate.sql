-- {prefix}id() returns a new ID of worker {worker}, in the layout
-- {layout}
--
--   CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT {schema}.{prefix}id(), ...);
--   GRANT USAGE ON SEQUENCE {sequence} TO ...;  -- the roles that insert
{fence}--
-- {about}
-- One database at a time may have worker {worker}. After a restore, or a failover that lost commits,
-- generate this script anew with another worker ID. Or set the state above the greatest ID of this
-- worker that anybody has seen:
--
--   BEGIN;
--   SELECT pg_advisory_xact_lock(1936617335, '{sequence}'::regclass::oid::int);
--   SELECT setval('{sequence}', ((THE_ID >> {shift}) + 1) << 22) FROM {sequence}
--     WHERE last_value < ((THE_ID >> {shift}) + 1) << 22;
--   COMMIT;
--
-- You may run the script again.

-- The state is tick<<22|n: the tick of the last ID, and its number in the tick. It never falls. The
-- numbers have more room than they need, so no draw carries into a tick that is being opened.
CREATE SEQUENCE IF NOT EXISTS {sequence} MINVALUE 0 START 0 MAXVALUE {max} CACHE 1 NO CYCLE;

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
      IF state >> 22 BETWEEN greatest(tick, above + 1) AND tick + {ahead} AND state & 4194303 < {last} THEN
        drawn := nextval('{sequence}');  -- another session has opened a tick
        RAISE EXCEPTION USING ERRCODE = 'SNF05';
      END IF;
      -- If half of the numbers are drawn, a draw may carry before setval: leave a tick out.
      next := greatest(tick, above + 1, (state >> 22) + 1 + ((state >> 21) & 1));
      IF next > {lastTick} THEN
        RAISE EXCEPTION 'the IDs have run out of time'
          USING ERRCODE = 'SNF03', HINT = 'The layout ends at {expires}.';
      ELSIF next > tick + {ahead} + {patience} THEN
        RAISE EXCEPTION 'the clock is % s behind the next ID, and may be {allowed} s behind', round((next - tick) * {seconds}, 3)
          USING ERRCODE = 'SNF04', HINT = '{hint}';
      ELSIF next <= tick + {ahead} THEN
        drawn := setval('{sequence}', next << 22);
      END IF;
      RAISE EXCEPTION USING ERRCODE = 'SNF05';
    EXCEPTION WHEN SQLSTATE 'SNF05' THEN
    END;
    IF drawn & 4194303 <= {last} THEN
      RETURN drawn;
    ELSIF drawn IS NULL THEN  -- the numbers of the ticks up to {allowed} s ahead of the clock are drawn
      PERFORM pg_sleep((next - tick - {ahead}) * {seconds});
    END IF;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION {schema}.{prefix}id() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
{mark}  micros bigint := {micros};
  tick   bigint := {tick};
  state  bigint := nextval('{sequence}');
BEGIN
  IF micros < 0 OR state >> 22 NOT BETWEEN {least} AND tick + {ahead} OR state & 4194303 > {last} THEN
    state := {schema}.{prefix}open({above});
  END IF;
  RETURN {id};
END $$;

-- {prefix}ids(n) returns n new IDs.
CREATE OR REPLACE FUNCTION {schema}.{prefix}ids(n integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE AS
$$ SELECT {schema}.{prefix}id() FROM generate_series(1, n) $$;
