package dataset

import (
	"encoding/json"
	"io"
	"strings"
)

// Infer returns the inferred schema of rows, or "" if there is none.
func Infer(data string) string {
	rows, _, err := firstRows(&io.LimitedReader{R: strings.NewReader(data), N: maxRead}, sampleRows)
	if err != nil {
		return err.Error()
	}
	schema, ok := infer(rows)
	if !ok {
		return ""
	}
	raw, _ := json.Marshal(schema)
	return string(raw)
}

// Grouped returns the files of each pack and the files that are in no pack.
func Grouped(files []File, limit int64) (groups [][]File, alone []File) { return grouped(files, limit) }
