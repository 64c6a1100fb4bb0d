package decode

// Slow reads a metrics request by the Reader alone.
func Slow(data []byte, into *Columns) error {
	into.Reset()
	return Body(data, func(r *Reader) { points(r, into) })
}
