-- Looks at the rows that were there before the checks. Claims and all else go on meanwhile.
ALTER TABLE errand.jobs
    VALIDATE CONSTRAINT jobs_times_check,
    VALIDATE CONSTRAINT jobs_attempts_check,
    VALIDATE CONSTRAINT jobs_payload_check,
    VALIDATE CONSTRAINT jobs_headers_check,
    VALIDATE CONSTRAINT jobs_key_check;
