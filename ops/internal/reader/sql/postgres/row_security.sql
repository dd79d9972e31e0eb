-- Whether row security hides jobs from this role.
SELECT row_security_active('errand.jobs'::regclass)
