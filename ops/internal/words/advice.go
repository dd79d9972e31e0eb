package words

// StartFiring is what to do about ticks that nobody fires because no worker is alive.
const StartFiring = "start workers: each fires the schedules of its database"

// LeaveCommits says what not to do about sessions whose commits wait.
const LeaveCommits = ". Do not end the waiting sessions: what they have written is committed on this server already"

// ConnectStandby is what to do about commits that wait for a standby.
const ConnectStandby = "connect the standby; or, so that commits do without it: ALTER SYSTEM RESET synchronous_standby_names, then SELECT pg_reload_conf()"

// MakeRoom is what to do about a disk that is full.
const MakeRoom = "make room on it: delete files that are no part of the database, or make the disk larger. " +
	"See the checks horizon and retention for what keeps tables from shrinking, and pg_replication_slots for what keeps WAL"

// AskPrimary is what to do about a standby.
const AskPrimary = "connect to the primary: with several hosts in the URL, add target_session_attrs=read-write"
