package decode

// Slow reads a metrics request with the Reader, without the scanner.
func Slow(data []byte, into *Columns) error {
	into.Reset()
	return Body(data, func(r *Reader) { points(r, into) })
}
