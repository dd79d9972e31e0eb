package main

// nearest returns the name that differs from name in the fewest characters, or "" if all differ in
// more than a third of it.
func nearest(names []string, name string) (best string) {
	least := len(name)/3 + 1
	for _, n := range names {
		if d := distance(n, name); d <= least && (best == "" || d < distance(best, name)) {
			best = n
		}
	}
	return best
}

// distance returns how many bytes to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
