package plain

import "slices"

// Nearest returns up to three of names that are spelled most like name, the nearest first: a person
// may have meant one of them.
func Nearest(name string, names []string) (near []string) {
	most := max(2, len(name)/3)
	for _, n := range names {
		if n != name && Distance(name, n) <= most {
			near = append(near, n)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return Distance(name, a) - Distance(name, b) })
	return near[:min(len(near), 3)]
}

// Distance returns how many bytes have to be added, removed or replaced to make b of a.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
