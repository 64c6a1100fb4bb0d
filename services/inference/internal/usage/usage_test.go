package usage

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

func newResponse(h httprelay.Header) *Response {
	var r Response
	r.Start(strings.HasPrefix(h.Get("Content-Type"), "text/event-stream"), h, func(err error) { panic(err) })
	return &r
}

func newRequest(h httprelay.Header) *Request {
	var r Request
	r.Start(h, func(err error) { panic(err) })
	return &r
}

// read returns what a response contains. It reads the body in parts of the given size.
func read(h httprelay.Header, body string, size int) Found {
	r := newResponse(h)
	for part := range parts(body, size) {
		r.Take([]byte(part))
	}
	r.Close()
	return r.Close() // the second call must return the same
}

// parts returns the parts of a text, at most size bytes each.
func parts(text string, size int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

func jsonHeader() httprelay.Header {
	return httprelay.Header{{Name: "Content-Type", Value: "application/json"}}
}

func streamHeader() httprelay.Header {
	return httprelay.Header{{Name: "Content-Type", Value: "text/event-stream; charset=utf-8"}}
}

// want returns what a response with the given numbers contains. A negative number is not in it.
func want(model, finish string, prompt, completion int32) Found {
	f := Found{Model: model, Finish: finish}
	if prompt >= 0 {
		f.Prompt = new(prompt)
	}
	if completion >= 0 {
		f.Completion = new(completion)
	}
	return f
}

// embeddings returns a response with 64 embeddings of 1,536 numbers, followed by the usage.
func embeddings() string {
	numbers := rand.New(rand.NewPCG(1, 2))
	body := []byte(`{"object":"list","data":[`)
	for range 64 {
		body = append(body, `{"object":"embedding","index":0,"embedding":[`...)
		for range 1536 {
			body = append(strconv.AppendFloat(body, numbers.NormFloat64(), 'g', 9, 64), ',')
		}
		body = append(body[:len(body)-1], "]},"...)
	}
	return string(body[:len(body)-1]) + `],"model":"e5","usage":{"prompt_tokens":512,"total_tokens":512}}`
}

func TestResponse_json(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want Found
	}{
		"chat": {
			`{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"usage: {\"prompt_tokens\": 9}"},` +
				`"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}`,
			want("m", "stop", 7, 3),
		},
		"chat, usage first": {`{"usage":{"completion_tokens":3,"prompt_tokens":7},"choices":[{"finish_reason":"length"}],"model":"m"}`, want("m", "length", 7, 3)},
		"completion":        {`{"object":"text_completion","model":"m","choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":0,"completion_tokens":1}}`, want("m", "length", 0, 1)},
		"several choices":   {`{"choices":[{"finish_reason":null},{"finish_reason":"tool_calls"}]}`, want("", "tool_calls", -1, -1)},
		"responses": {`{"id":"resp_1","object":"response","error":null,"model":"m","output":[{"content":[{"text":"hi"}]}],` +
			`"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":30},"output_tokens":87,"total_tokens":123}}`, want("m", "", 36, 87)},
		"messages": {`{"type":"message","model":"m","content":[],"stop_reason":"end_turn",` +
			`"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":5}}`, want("m", "end_turn", 3210, 5)},
		"messages without a cache": {`{"model":"m","usage":{"input_tokens":10,"cache_creation_input_tokens":null,"output_tokens":5}}`, want("m", "", 10, 5)},
		"embeddings":               {embeddings(), want("e5", "", 512, -1)},
		"rerank of Jina":           {`{"model":"m","usage":{"total_tokens":815},"results":[{"index":0,"relevance_score":0.9}]}`, want("m", "", 815, -1)},
		"rerank of vLLM":           {`{"id":"r","model":"m","usage":{"prompt_tokens":56,"total_tokens":56},"results":[]}`, want("m", "", 56, -1)},
		"rerank of Cohere":         {`{"results":[],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`, want("", "", -1, -1)},
		"tokens of Cohere":         {`{"meta":{"billed_units":{"input_tokens":5,"output_tokens":6},"tokens":{"input_tokens":71,"output_tokens":8}}}`, want("", "", 71, 8)},
		"billed units of Cohere":   {`{"meta":{"billed_units":{"input_tokens":5,"output_tokens":6}}}`, want("", "", 5, 6)},
		"chat of Cohere":           {`{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":5},"tokens":{"input_tokens":71,"output_tokens":8}}}`, want("", "COMPLETE", 71, 8)},
		"transcription":            {`{"text":"hello","usage":{"type":"tokens","input_tokens":14,"output_tokens":45,"total_tokens":59}}`, want("", "", 14, 45)},
		"transcription by time":    {`{"text":"hello","usage":{"type":"duration","seconds":9}}`, want("", "", -1, -1)},
		"usage of null":            {`{"model":"m","usage":null,"choices":null}`, want("m", "", -1, -1)},
		"white space":              {" \r\n{\n\t\"model\" : \"m\" ,\r\n \"usage\" : { \"prompt_tokens\" : 7 , \"completion_tokens\":3 } }\n", want("m", "", 7, 3)},
		"escapes":                  {`{"mod\u0065l":"a\u00e9\ud83d\ude00\"\\","us\u0061ge":{"prompt\u005ftokens":7}}`, want("aé😀\"\\", "", 7, -1)},
		"lines of JSON":            {`{"model":"m","choices":[]}` + "\n" + `{"model":"m","usage":{"prompt_tokens":7,"completion_tokens":3}}` + "\n", want("m", "", 7, 3)},
		"an error":                 {`{"error":{"message":"no","model":"x"}}`, want("", "", -1, -1)},
		"total of both":            {`{"usage":{"prompt_tokens":7.5,"completion_tokens":3.5,"total_tokens":11}}`, want("", "", -1, -1)},
		"total without parts":      {`{"usage":{"prompt_tokens":null,"total_tokens":11}}`, want("", "", 11, -1)},
		"usage of choices last":    {`{"usage":{"prompt_tokens":7,"completion_tokens":6},"choices":[{"usage":{"completion_tokens":2}},{"usage":{"completion_tokens":4}}]}`, want("", "", 7, 6)},
		"maximum":                  {`{"usage":{"prompt_tokens":2147483647,"completion_tokens":2147483648}}`, want("", "", 1<<31-1, -1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 3, 7, 4096, len(c.body)} {
				require.Equal(t, c.want, read(jsonHeader(), c.body, size), "in parts of %d bytes", size)
			}
		})
	}
}

func TestResponse_malformed(t *testing.T) {
	t.Parallel()
	const usage = `"usage":{"prompt_tokens":7,"completion_tokens":3}`
	for _, body := range []string{
		"", "hello", "[1]", `[{` + usage + `}]`, `"` + usage + `"`, `{`, `{` + usage, `{` + usage + `,"a":`, `{` + usage + `,"a":"b}`, `{` + usage + `]`,
		`{"a" 1,` + usage + `}`, `{a:1,` + usage + `}`, `{"a":b,` + usage + `}`, `{"a":[1,` + usage + `}`, `{"a"::1,` + usage + `}`, `{,,` + usage + `}`,
		`{"usage":"much"}`, `{"usage":[7]}`, `{"usage":{"prompt_tokens":"7"}}`, `{"usage":{"prompt_tokens":1.5}}`, `{"usage":{"completion_tokens":"3","total_tokens":10}}`, `{"usage":{"prompt_tokens":-1}}`,
		`{"usage":{"prompt_tokens":1e3}}`, `{"usage":{"prompt_tokens":007}}`, `{"usage":{"prompt_tokens":99999999999}}`,
		`{"usage":{"prompt_tokens":` + strings.Repeat("9", 5000) + `}}`, `{"usage":{"prompt_tokens":{}}}`, `{"usage":{"prompt_tokens":true}}`,
		`{"model":5,"choices":{"finish_reason":"x"}}`, `{"model":["m"]}`, `{"choices":[[{"finish_reason":"x"}]]}`, `{"data":{` + usage + `}}`,
		`{"usage":{"input_tokens":2147483647,"cache_read_input_tokens":1}}`, strings.Repeat(`{"usage":`, 100), strings.Repeat(`[`, 1<<20), "\xff\x00{}",
	} {
		for _, size := range []int{1, 5, max(1, len(body))} {
			require.Equal(t, Found{}, read(jsonHeader(), body, size), "%.100q in parts of %d bytes", body, size)
		}
	}
}

func TestResponse_stream(t *testing.T) {
	t.Parallel()
	part := `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"tokens\" error"},"finish_reason":null}],"usage":null}` + "\n\n"
	for name, c := range map[string]struct {
		body string
		want Found
	}{
		"chat": {strings.Repeat(part, 50) + `data: {"model":"m","choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}` + "\n\n" +
			`data: {"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":50}}` + "\n\ndata: [DONE]\n\n", want("m", "stop", 7, 50)},
		"continuous usage": {`data: {"model":"m","choices":[{"delta":{}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" +
			`data: {"model":"m","choices":[{"delta":{}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n", want("m", "", 7, 2)},
		"usage with the reason": {`data: {"choices":[{"delta":{"content":"i"},"index":0}],"model":"m","object":"chat.completion.chunk"}` + "\n\n" +
			`data: {"choices":[{"delta":{},"index":0,"finish_reason":"length"}],"model":"m","usage":{"completion_tokens":4,"prompt_tokens":21,"total_tokens":25}}` + "\n\n", want("m", "length", 21, 4)},
		"usage in a choice":          {`data: {"model":"m","choices":[{"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":2}}]}` + "\n\n", want("m", "stop", 7, 2)},
		"usage in the first of many": {`data: {"model":"m","usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" + strings.Repeat(part, 500), want("m", "", 7, 1)},
		"responses": {"event: response.created\ndata: " + `{"type":"response.created","response":{"model":"m","error":null,"usage":null}}` + "\n\n" +
			strings.Repeat("event: response.output_text.delta\ndata: "+`{"type":"response.output_text.delta","delta":"hi"}`+"\n\n", 9) +
			"event: response.completed\ndata: " + `{"type":"response.completed","response":{"error":null,"output":[{"text":"` + strings.Repeat("x", 40_000) +
			`"}],"usage":{"input_tokens":11,"output_tokens":9,"total_tokens":20}}}` + "\n\n", want("m", "", 11, 9)},
		"messages": {"event: message_start\ndata: " + `{"type":"message_start","message":{"model":"m","stop_reason":null,"usage":{"input_tokens":25,"cache_read_input_tokens":100,"output_tokens":1}}}` + "\n\n" +
			"event: ping\ndata: {\"type\": \"ping\"}\n\n" + strings.Repeat(`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`+"\n\n", 900) +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}` + "\n\n", want("m", "end_turn", 125, 15)},
		"messages with the usage last": {`data: {"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}` + "\n\n" +
			`data: {"type":"message_delta","usage":{"input_tokens":25,"output_tokens":15}}` + "\n\n", want("", "", 25, 15)},
		"chat of Cohere":     {`data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":5,"output_tokens":6}}}}` + "\n\n", want("", "COMPLETE", 5, 6)},
		"CRLF":               {strings.ReplaceAll(part+`data: {"usage":{"prompt_tokens":7}}`+"\n\n", "\n", "\r\n"), want("m", "", 7, -1)},
		"CR":                 {strings.ReplaceAll(part+`data: {"usage":{"prompt_tokens":7}}`+"\n\n", "\n", "\r"), want("m", "", 7, -1)},
		"several data lines": {part + ": comment\nid: 5\ndata: {\ndata: \"usage\":\ndata:{\"prompt_tokens\":7\ndata: }}\n\n", want("m", "", 7, -1)},
		"without a space":    {"\ufeff" + strings.ReplaceAll(part, "data: ", "data:") + `data:{"usage":{"prompt_tokens":7}}` + "\n\n", want("m", "", 7, -1)},
		"without an end":     {part + `data: {"usage":{"prompt_tokens":7}}`, want("m", "", 7, -1)},
		"malformed events":   {part + "data: {\"usage\":{\"prompt_tokens\":9\n\ndata: x\n\ndata\n\n: {\"usage\":{\"prompt_tokens\":9}}\n\ndatax: {\"usage\":{\"prompt_tokens\":9}}\n\n" + `data: {"usage":{"prompt_tokens":7}}` + "\n\n", want("m", "", 7, -1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 3, 50, 4096, len(c.body)} {
				require.Equal(t, c.want, read(streamHeader(), c.body, size), "in parts of %d bytes", size)
			}
		})
	}
}

func TestResponse_errorEvents(t *testing.T) {
	t.Parallel()
	const before = `data: {"model":"m","choices":[]}` + "\n\n"
	for event, failed := range map[string]bool{
		`data: {"error":{"message":"CUDA out of memory"}}`:                                        true,
		`data: {"error": "CUDA out of memory"}`:                                                   true,
		`data: {"error":true}`:                                                                    true,
		`data: {"error":[1]}`:                                                                     true,
		`data: {"model":"m","error":{}}`:                                                          true,
		"event: error\ndata: CUDA out of memory":                                                  true,
		"event:error\ndata: {}":                                                                   true,
		`data: {"type":"error","error":{"type":"overloaded_error"}}`:                              true,
		`data: {"type":"error","code":"server_error"}`:                                            true,
		`data: {"type":"response.failed","response":{"error":{"code":"x"}}}`:                      true,
		`data: {"type":"response.failed","response":{"status":"failed"}}`:                         true,
		`data: {"type":"response.completed","response":{"error":null}}`:                           false,
		`data: {"error":null}`:                                                                    false,
		`data: {"error":false}`:                                                                   false,
		`data: {"error":""}`:                                                                      false,
		`data: {"choices":[{"delta":{"content":"{\"error\":{}}","error":{}}}]}`:                   false,
		`: {"error":{"message":"a comment"}}`:                                                     false,
		"event: errors\ndata: {}":                                                                 false,
		`data: {"type":"response.output_text.delta","delta":"error"}`:                             false,
		`data: {"error":{"message":"not complete"}`:                                               false,
		`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"error"}}]}}],"usage":{}}`: false,
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			body := strings.ReplaceAll(before+event+"\n\n"+before, "\n", end)
			for _, size := range []int{1, 3, len(body)} {
				require.Equal(t, Found{Model: "m", Failed: failed}, read(streamHeader(), body, size), "%s in parts of %d bytes", event, size)
			}
		}
		require.False(t, read(jsonHeader(), event[len("data: "):], 100).Failed, "only event streams report errors within a response")
	}
}

func TestResponse_AtBorder(t *testing.T) {
	t.Parallel()
	for sent, border := range map[string]bool{
		"": true, "data: a\n\n": true, "data: a\r\n\r\n": true, "data: a\r\r": true, "\n": true, ": ping\n": true, ": ping\n\n": true, "data: a\n\n: ping\n": true,
		"data: a\n\n\n": true, "\ufeffdata: a\n\n": true,
		"data: a\n": false, "data: a": false, "data: a\r\n": false, "data: a\r": false, "d": false, ": ping": false, ": ping\r": false,
		"data: a\r\n\r": false, "data: a\n\nd": false, "data: a\n\nid: 1\n": false, "event: x\n": false, "retry: 1\n": false, "data\n": false,
		"data: a\n\ndata: {\"b\":\n": false, "data: a\n: ping\n": false,
	} {
		for _, size := range []int{1, 2, 100} {
			r := newResponse(streamHeader())
			for part := range parts(sent, size) {
				r.Take([]byte(part))
			}
			require.Equal(t, border, r.AtBorder(), "%q in parts of %d bytes", sent, size)
		}
	}
	require.False(t, newResponse(jsonHeader()).AtBorder())
	compressed := streamHeader()
	compressed.Set("Content-Encoding", "gzip")
	require.False(t, newResponse(compressed).AtBorder())
}

func TestResponse_memory(t *testing.T) {
	part := []byte(strings.Repeat(`\"`, 16<<10))
	for name, begin := range map[string]string{
		"text": `{"a":"`, "model": `{"model":"`, "key": `{"`, "literal": `{"model":`, "list": `{"a":[[[`, "data": `data: {"model":"`, "field": "x", "event": "event: ",
	} {
		for _, h := range []httprelay.Header{jsonHeader(), streamHeader()} {
			r := newResponse(h)
			r.Take([]byte(begin))
			r.Take(part)
			require.Zero(t, int(testing.AllocsPerRun(20, func() { r.Take(part) })), name)
			require.LessOrEqual(t, cap(r.events.json.kept)+cap(r.events.name), 2*maxKept, name)
		}
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	form := func(fields string) string { return strings.ReplaceAll(fields, "\n", "\r\n") }
	const head = "--b\nContent-Disposition: form-data; name="
	file := head + `"file"; filename="a.wav"` + "\nContent-Type: audio/wav\n\n" + strings.Repeat("\r\n--a\x00\n--", 20_000) + "\n"
	for name, c := range map[string]struct {
		contentType, body string
		want              Wanted
	}{
		"chat":               {"application/json", `{"model":"m","messages":[{"content":"\"model\":\"x\""}],"stream":true}`, Wanted{"m", true}},
		"model last":         {"application/json", `{"input":["` + strings.Repeat(`a\"`, 400_000) + `"],"model":"m"}`, Wanted{"m", false}},
		"other types":        {"application/json", `{"model":5,"stream":"yes"}`, Wanted{}},
		"model of null":      {"application/json", `{"model":null}`, Wanted{}},
		"not JSON":           {"text/plain", "model", Wanted{}},
		"no content type":    {"", `{"model":"m"}`, Wanted{"m", false}},
		"cut":                {"application/json", `{"model":"m","messages":[`, Wanted{}},
		"form":               {`multipart/form-data; boundary=b`, form(head + "\"model\"\n\nm\n" + file + "--b--\n"), Wanted{"m", false}},
		"form, file first":   {`multipart/form-data; boundary="b"`, form(file + head + "model\n\nm\n" + head + "\"stream\"\n\ntrue\n--b--\n"), Wanted{"m", true}},
		"form with preamble": {`Multipart/Form-Data; boundary=b`, form("hello\n" + head + "\"model\"\n\nm\n--x\n--b--\n"), Wanted{"m\r\n--x", false}},
		"empty model":        {`multipart/form-data; boundary=b`, form(head + "\"model\"\n\n\n--b--\n"), Wanted{}},
		"model as a file":    {`multipart/form-data; boundary=b`, form(head + "\"model\"; filename=\"x\"\n\nm\n--b--\n"), Wanted{}},
		"form cut":           {`multipart/form-data; boundary=b`, form(head + "\"model\"\n\nm"), Wanted{}},
		"other boundary":     {`multipart/form-data; boundary=c`, form(head + "\"model\"\n\nm\n--b--\n"), Wanted{}},
		"no boundary":        {`multipart/form-data`, form(head + "\"model\"\n\nm\n--b--\n"), Wanted{}},
		"long headers":       {`multipart/form-data; boundary=b`, form(head + "\"" + strings.Repeat("x", maxPartHeader) + "\"\n\nm\n" + head + "\"model\"\n\nm\n--b--\n"), Wanted{}},
		"after the end":      {`multipart/form-data; boundary=b`, form("--b--\n" + head + "\"model\"\n\nm\n--b--\n"), Wanted{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 3, 5, 4096, max(1, len(c.body))} {
				r := newRequest(httprelay.Header{{Name: "Content-Type", Value: c.contentType}})
				for part := range parts(c.body, size) {
					r.Take([]byte(part))
				}
				require.Equal(t, c.want, r.Close(), "in parts of %d bytes", size)
			}
		})
	}
}

func TestRequest_longModel(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"m", `\\`, `\u00e9`, `\ud83d\ude00`} {
		for more := range 14 {
			r := newRequest(jsonHeader())
			r.Take([]byte(`{"model":"` + strings.Repeat("a", more) + strings.Repeat(unit, 100_000) + `"}`))
			got := r.Close().Model
			require.Greater(t, len(got), 256, "%s: the beginning of a long name is kept", strconv.Quote(unit))
			require.LessOrEqual(t, len(got), maxKept)
			require.NotContains(t, got, "\ufffd")
		}
	}
}
