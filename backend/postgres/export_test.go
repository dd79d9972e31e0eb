package postgres

// Statement is the text of a file of the sql folder, for tests that look at plans.
func Statement(name string) string { return inSchema(readSQL("sql/"+name+".sql"), defaultSchema) }

// TextArray is the array literal that Enqueue sends.
var TextArray = textArray
