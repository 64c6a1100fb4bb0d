package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
)

const (
	chainDomain      = "signalbox audit v1"
	checkpointDomain = "signalbox audit checkpoint v1"
)

// encoding encodes a list of fields unambiguously: each field carries its length, and an absent field differs from an
// empty one.
type encoding []byte

func (e encoding) bytes(b []byte) encoding {
	e = append(e, 1)
	e = binary.BigEndian.AppendUint32(e, uint32(len(b)))
	return append(e, b...)
}

func (e encoding) text(s string) encoding { return e.bytes([]byte(s)) }

func (e encoding) number(n int64) encoding { return e.text(strconv.FormatInt(n, 10)) }

func (e encoding) optional(b []byte) encoding {
	if b == nil {
		return append(e, 0)
	}
	return e.bytes(b)
}

// canonical encodes all fields of a row. A deleted row (nil) encodes to no bytes.
func canonical(r *Row) []byte {
	if r == nil {
		return nil
	}
	return encoding(nil).text(r.ID).number(r.Seq).number(r.At.UnixMicro()).
		text(r.Actor.Kind).text(r.Actor.ID).text(r.Actor.Name).text(r.Actor.SessionID).text(r.Actor.ClientAddr).
		text(r.Action).text(r.TargetKind).text(r.TargetID).optional(r.Before).optional(r.After).text(r.Actor.RequestID)
}

// link returns the chain hash at a position. It covers the row and, through the previous hash, every row before it.
func link(service string, position int64, previous []byte, auditID string, row *Row) []byte {
	sum := sha256.Sum256(encoding(nil).text(chainDomain).text(service).number(position).bytes(previous).text(auditID).bytes(canonical(row)))
	return sum[:]
}

// genesis is the hash that precedes the first link.
func genesis() []byte { return make([]byte, sha256.Size) }

// Checkpoint is a signed head of the chain of one service.
type Checkpoint struct {
	Service   string    `json:"service"`
	Position  int64     `json:"position"`
	Previous  int64     `json:"previous"` // position of the head before this one, 0 for the first
	Hash      []byte    `json:"hash"`
	At        time.Time `json:"at"`
	KeyID     string    `json:"key_id"`
	Signature []byte    `json:"signature"`
}

func (c *Checkpoint) signed() []byte {
	return encoding(nil).text(checkpointDomain).text(c.Service).number(c.Position).number(c.Previous).bytes(c.Hash).number(c.At.UnixMicro()).text(c.KeyID)
}

// Valid reports whether the checkpoint has a valid signature by the key with the id KeyID.
func (c *Checkpoint) Valid(keys map[string]ed25519.PublicKey) bool {
	key, ok := keys[c.KeyID]
	return ok && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, c.signed(), c.Signature)
}
