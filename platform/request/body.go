package request

import (
	"mime"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const jsonType = "application/json"

// PlainJSON refuses a body whose headers say that it is anything else than JSON in UTF-8, as it is: a form would be
// parsed into the query by the generated handlers, and a compressed body may grow past every limit. One without a
// type is taken for JSON.
func PlainJSON(h http.Header) *fault.Error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.InvalidFields(fault.At(fault.TypeLiteral, "Input should be 'identity'", "header", "content-encoding"))
	}
	given := h.Values("Content-Type")
	if len(given) == 0 {
		return nil
	}
	typ, params, err := mime.ParseMediaType(given[0])
	charset, named := params["charset"]
	if err != nil || len(given) > 1 || typ != jsonType || named && !strings.EqualFold(charset, "utf-8") {
		return fault.InvalidFields(fault.At(fault.TypeLiteral, "Input should be 'application/json'", "header", "content-type"))
	}
	return nil
}
