package submit

// checkDialect refuses a client that speaks another dialect.
func checkDialect(d *Draft) error {
	if d.API != Dialect {
		return refuse(GateDialect, "this control plane speaks %s, the submission %s", Dialect, d.API)
	}
	return nil
}
