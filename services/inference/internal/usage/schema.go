package usage

import "math"

// place is a place in a JSON document: an object or a list whose members are read, or a value that is kept.
type place uint8

const (
	ignored place = iota
	// Objects, and the list choices.
	top
	inner // response and message
	delta
	choices
	choice
	meta
	tokens // usage and what has its fields
	cohereTokens
	cohereBilled
	request // a request
	// Texts, and the members that report an error.
	model
	finish
	failure
	kind
	stream
	// Numbers of tokens. The order of the numbers is that of the array counts.
	promptTokens
	completionTokens
	inputTokens
	outputTokens
	totalTokens
	cacheRead
	cacheCreated
	cohereIn
	cohereOut
	billedIn
	billedOut
	// anyPart is not a place in a document. It is set as soon as a number other than totalTokens has a value that is not
	// null.
	anyPart
	places
)

func (p place) isContainer() bool { return p >= top && p <= request }
func (p place) isList() bool      { return p == choices }
func (p place) isCount() bool     { return p >= promptTokens && p < anyPart }

// member returns the place of a member of the object p.
func (p place) member(key []byte) place {
	switch p {
	case top:
		return topMember(key)
	case inner:
		return innerMember(key)
	case delta, choice:
		return partMember(key)
	case meta, cohereTokens, cohereBilled:
		return p.cohereMember(key)
	case tokens:
		return usageMember(key)
	case request:
		switch string(key) {
		case "model":
			return model
		case "stream":
			return stream
		}
	default: // no object is read there
	}
	return ignored
}

func topMember(key []byte) place {
	switch string(key) {
	case "response", "message": // events of the Responses API, and the first event of Anthropic's Messages
		return inner
	case "delta":
		return delta
	case "choices":
		return choices
	case "meta": // Cohere's rerank
		return meta
	case "type":
		return kind
	}
	return innerMember(key)
}

func innerMember(key []byte) place {
	switch string(key) {
	case "model":
		return model
	case "error":
		return failure
	}
	return partMember(key)
}

func partMember(key []byte) place {
	switch string(key) {
	case "usage":
		return tokens
	case "finish_reason", "stop_reason":
		return finish
	}
	return ignored
}

func (p place) cohereMember(key []byte) place {
	switch string(key) {
	case "tokens":
		return p.only(meta, cohereTokens)
	case "billed_units":
		return p.only(meta, cohereBilled)
	case "input_tokens":
		return max(p.only(cohereTokens, cohereIn), p.only(cohereBilled, billedIn))
	case "output_tokens":
		return max(p.only(cohereTokens, cohereOut), p.only(cohereBilled, billedOut))
	}
	return ignored
}

func (p place) only(in, then place) place {
	if p == in {
		return then
	}
	return ignored
}

func usageMember(key []byte) place {
	switch string(key) {
	case "prompt_tokens":
		return promptTokens
	case "completion_tokens":
		return completionTokens
	case "input_tokens":
		return inputTokens
	case "output_tokens":
		return outputTokens
	case "total_tokens":
		return totalTokens
	case "cache_read_input_tokens":
		return cacheRead
	case "cache_creation_input_tokens":
		return cacheCreated
	case "tokens": // Cohere's chat
		return cohereTokens
	case "billed_units":
		return cohereBilled
	}
	return ignored
}

// counts holds numbers of tokens plus 1; 0 means that there is no number.
type counts [places - promptTokens]int64

// set keeps n, unless there is a larger number: choices may have counts of their own besides those of the response.
func (c *counts) set(p place, n int64) { c[p-promptTokens] = max(c[p-promptTokens], n+1) }

// mark records that there is a value in place p that is not null.
func (c *counts) mark(p place) {
	if p != totalTokens {
		c.set(anyPart, 0)
	}
}

// merge keeps the larger of the numbers: within a stream, each number is the sum up to its event.
func (c *counts) merge(other *counts) {
	for i, n := range other {
		c[i] = max(c[i], n)
	}
}

// first returns the first of the given numbers that exists, or nil.
func (c *counts) first(of ...place) *int32 {
	for _, p := range of {
		if n := c[p-promptTokens]; n > 0 {
			value := int32(n - 1)
			return &value
		}
	}
	return nil
}

// prompt returns the number of tokens of the prompt. Anthropic's input_tokens do not contain those of the cache. A
// response that has only a total, such as that of a reranker, generates no tokens.
func (c *counts) prompt() *int32 {
	n := c.first(promptTokens, inputTokens, cohereIn, billedIn)
	if n == nil && c.first(anyPart) == nil {
		return c.first(totalTokens)
	}
	if n == nil || c.first(promptTokens) != nil {
		return n
	}
	sum := int64(*n)
	for _, p := range []place{cacheRead, cacheCreated} {
		sum += max(0, c[p-promptTokens]-1)
	}
	if sum > math.MaxInt32 {
		return nil
	}
	*n = int32(sum)
	return n
}

func (c *counts) completion() *int32 {
	return c.first(completionTokens, outputTokens, cohereOut, billedOut)
}

// found is what one or more documents contain.
type found struct {
	model, finish  string
	counts         counts
	failed, stream bool
}

func (f *found) result() Found {
	return Found{Model: f.model, Finish: f.finish, Prompt: f.counts.prompt(), Completion: f.counts.completion()}
}
