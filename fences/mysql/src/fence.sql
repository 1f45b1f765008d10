CREATE TABLE IF NOT EXISTS {database}.tenure_fence_session (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0)
) ENGINE=InnoDB
;;
ALTER TABLE {table} ADD COLUMN /*M!100000 IF NOT EXISTS */ tenure_token BIGINT NOT NULL DEFAULT 0 INVISIBLE
;;
CREATE TRIGGER IF NOT EXISTS {insert} BEFORE INSERT ON {table} FOR EACH ROW
BEGIN
{of_token}
  IF of_token IS NULL THEN
{no_token}
  END IF;
  SET NEW.tenure_token = of_token;
END
;;
CREATE TRIGGER IF NOT EXISTS {update} BEFORE UPDATE ON {table} FOR EACH ROW
BEGIN
  DECLARE of_text VARCHAR(128);
{of_token}
  IF of_token IS NULL THEN
{no_token}
  ELSEIF of_token < OLD.tenure_token THEN
{stale}
  END IF;
  SET NEW.tenure_token = of_token;
END
;;
CREATE TRIGGER IF NOT EXISTS {delete} BEFORE DELETE ON {table} FOR EACH ROW
BEGIN
  DECLARE of_text VARCHAR(128);
{of_token}
  IF of_token IS NULL THEN
{no_token}
  ELSEIF of_token < OLD.tenure_token THEN
{stale}
  END IF;
END
;;
