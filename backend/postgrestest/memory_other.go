//go:build unix && !linux

package postgrestest

// dataParent returns "", the usual place for temporary files: only Linux has a directory in memory
// everywhere.
func dataParent(Options) string { return "" }
