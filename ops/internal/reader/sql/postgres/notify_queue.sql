-- Which part of the server's queue of notifications is in use.
SELECT pg_notification_queue_usage()
