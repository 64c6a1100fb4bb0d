package dataset

import (
	"encoding/json"
	"io"
	"strings"
)

// Infer is the schema of rows, "" for none.
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
