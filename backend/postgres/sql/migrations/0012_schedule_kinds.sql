-- What roles see of a schedule that may not read its job, which has a payload, nor the digest, which tells of it.
ALTER TABLE errand.schedules
    ADD COLUMN kind     text GENERATED ALWAYS AS (job ->> 'kind') STORED,
    ADD COLUMN queue    text GENERATED ALWAYS AS (job ->> 'queue') STORED,
    ADD COLUMN declared boolean GENERATED ALWAYS AS (digest IS NOT NULL) STORED;
