-- The function has its owner's rights, and ignores the caller's search_path.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared({class}, '{sequence}'::regclass::oid::int);
	IF NEW.{column} <= (SELECT last_value FROM {sequence}) THEN
		RAISE EXCEPTION 'a reader has passed the ID %', NEW.{column} USING ERRCODE = 'SNF01', HINT = 'Roll back, and try again with new IDs.';
	END IF;
	RETURN NULL;
END $$;;

DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = '{table}'::regclass
		AND tgname IN ('{name}', '{name}/update') AND tgfoid <> '{function}'::regproc) THEN
		RAISE EXCEPTION 'the trigger {name} is that of a fence in another schema';
	END IF;
END $$;;

DROP TRIGGER IF EXISTS "{name}" ON {table};;

DROP TRIGGER IF EXISTS "{name}/update" ON {table};;

CREATE CONSTRAINT TRIGGER "{name}" AFTER INSERT ON {table}
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE PROCEDURE {function}();;

-- UPDATE OF the column would not fire if another trigger changes the column.
CREATE CONSTRAINT TRIGGER "{name}/update" AFTER UPDATE ON {table}
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.{column} IS DISTINCT FROM NEW.{column}) EXECUTE PROCEDURE {function}()
