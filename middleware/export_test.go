package middleware

// ErrSilent is what Tx says of a database that does not answer.
var ErrSilent = errSilent
