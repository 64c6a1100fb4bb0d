package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sample() *Row {
	return &Row{
		ID: "aud_1", Seq: 7, At: time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC),
		Actor:  Actor{Kind: "user", ID: "usr_1", Name: "ada", SessionID: "ses_1", ClientAddr: "192.0.2.1", RequestID: "req_1"},
		Action: "job.cancel", TargetKind: "job", TargetID: "job_1", Before: []byte(`{"state":"running"}`),
	}
}

// Logs sealed years ago must still verify, so these bytes never change. A new
// format needs a new domain string next to the old one.
func TestChainFormat_stable(t *testing.T) {
	t.Parallel()
	hash := link("jobs", 3, genesis(), "aud_1", sample())
	require.Equal(t, "466b6214885b7b6405c6b41e1ec43aa250b50653f253534ee8c684e9d6e97bfc", hex.EncodeToString(hash))
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	c := Checkpoint{Service: "jobs", Position: 3, Previous: 1, Hash: hash, At: sample().At, KeyID: "k1"}
	c.Signature = ed25519.Sign(key, c.signed())
	require.Equal(t, "27634155d2f979edc8663aef300d1d459f86446ff077f5eb3c0a854266ce2846"+
		"b6ea36501e4ef293739b37143d9b542cca21f953a7654ab29f34343a3bb00a08", hex.EncodeToString(c.Signature))
	require.True(t, c.Valid(map[string]ed25519.PublicKey{"k1": key.Public().(ed25519.PublicKey)}))
}

func TestLink_dependsOnEveryInput(t *testing.T) {
	t.Parallel()
	other := genesis()
	other[0] = 1
	seen := map[string]string{}
	for name, hash := range map[string][]byte{
		"unchanged":       link("jobs", 3, genesis(), "aud_1", sample()),
		"other service":   link("auth", 3, genesis(), "aud_1", sample()),
		"other position":  link("jobs", 4, genesis(), "aud_1", sample()),
		"other previous":  link("jobs", 3, other, "aud_1", sample()),
		"other id":        link("jobs", 3, genesis(), "aud_2", sample()),
		"no row":          link("jobs", 3, genesis(), "aud_1", nil),
		"character moved": link("jobs3", 0, genesis(), "aud_1", sample()),
	} {
		require.Empty(t, seen[string(hash)], name)
		seen[string(hash)] = name
	}
}

func TestCheckpoint_signatureCoversEveryField(t *testing.T) {
	t.Parallel()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	keys := map[string]ed25519.PublicKey{"k1": public, "k2": public}
	good := Checkpoint{Service: "jobs", Position: 3, Previous: 1, Hash: genesis(), At: sample().At, KeyID: "k1"}
	good.Signature = ed25519.Sign(key, good.signed())
	require.True(t, good.Valid(keys))
	for name, change := range map[string]func(*Checkpoint){
		"service":   func(c *Checkpoint) { c.Service = "auth" },
		"position":  func(c *Checkpoint) { c.Position = 4 },
		"previous":  func(c *Checkpoint) { c.Previous = 2 },
		"hash":      func(c *Checkpoint) { c.Hash = append([]byte{1}, genesis()[1:]...) },
		"time":      func(c *Checkpoint) { c.At = c.At.Add(time.Microsecond) },
		"key":       func(c *Checkpoint) { c.KeyID = "k2" },
		"unknown":   func(c *Checkpoint) { c.KeyID = "k3" },
		"signature": func(c *Checkpoint) { c.Signature = c.Signature[:63] },
	} {
		bad := good
		change(&bad)
		require.False(t, bad.Valid(keys), name)
	}
}

// Different lists of fields must never encode to the same bytes. The test splits one text into three fields at
// random places and checks that no two splits collide.
func TestEncoding_unambiguous(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	const text = "\x00\x00\x01a\x01\x00\x00\x00\x01b"
	seen := map[string][2]int{}
	for range 2000 {
		a := random.IntN(len(text) + 1)
		b := a + random.IntN(len(text)+1-a)
		key := string(encoding(nil).text(text[:a]).text(text[a:b]).text(text[b:]))
		if was, ok := seen[key]; ok {
			require.Equal(t, was, [2]int{a, b})
		}
		seen[key] = [2]int{a, b}
	}
	require.NotEqual(t, encoding(nil).optional(nil), encoding(nil).optional([]byte{}))
}
