package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const unfinished = "-- request --\nGET /x\n-- response --\n200\n\n{}\n-- request --\nGET /{{unique}}\n-- response --\n200\n\n?\n"

func TestGolden_Run_draft(t *testing.T) {
	t.Parallel()
	s := testTarget(t, respondWith(200, "", `{}`))
	require.Error(t, runText(t, s, unfinished), "without Draft a question mark must not match")
	s = testTarget(t, respondWith(200, "", `{"id":"job_`+aULID+`","n":1.0,"at":"2026-11-21T03:00:00.123456+00:00","url":"`+"http://x/"+`","list":["sha256:`+
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"+`"],"token":"eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.AAAA","by":"mine-12345"}`))
	drafts := map[int]string{}
	s.Draft = func(step int, body string) { drafts[step] = body }
	s.Vars = map[string]string{"who": "mine-12345"}
	require.NoError(t, runText(t, s, unfinished[len("-- request --\nGET /x\n-- response --\n200\n\n{}\n"):]))
	require.Equal(t, map[int]string{
		0: `{"at":"<<time>>","by":"{{who}}","id":"<<id job>>","list":["<<digest>>"],"n":1.0,"token":"<<string>>","url":"http://x/"}`,
	}, drafts)
	require.Equal(t, "About.\n-- request --\nGET /x\n-- response --\n200\n\n{}\n-- request --\nGET /{{unique}}\n-- response --\n200\n\n{\"a\":1}\n",
		Fill("About.\n"+unfinished, map[int]string{1: `{"a":1}`}))
}
