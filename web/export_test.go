package web

// Routes returns "METHOD path" of all routes.
func Routes() (all []string) {
	for _, r := range routes {
		all = append(all, r.method+" "+r.path)
	}
	return all
}
