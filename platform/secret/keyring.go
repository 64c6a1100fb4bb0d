package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
)

// ErrOpen means that no key of this ring encrypted the value for the given aad. The value was changed, copied from
// another row, or encrypted with a key that the ring does not have.
var ErrOpen = errors.New("the encrypted value does not belong to this keyring and this row")

var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

const (
	keySize   = 32
	nonceSize = 12
	tagSize   = 16
	version   = 1
)

// Key is a key-encryption key.
type Key struct {
	ID    string
	Bytes []byte // 32 bytes
}

// Keyring encrypts values with its first key and decrypts values that any of its keys encrypted. Each value has its own
// data key (AES-256-GCM), which a key of the ring wraps. The comment on pg.Reseal describes how to rotate the keys.
type Keyring struct {
	active string
	keys   map[string]cipher.AEAD
}

// NewKeyring returns a Keyring that encrypts with the first key. It rejects an empty list, invalid or duplicate ids,
// keys of the wrong length, and keys that do not look random.
func NewKeyring(keys ...Key) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("the keyring contains no keys")
	}
	ring := &Keyring{active: keys[0].ID, keys: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return nil, fmt.Errorf("keyring: %w", err)
		}
		if ring.keys[k.ID] != nil {
			return nil, fmt.Errorf("keyring: duplicate key %q", k.ID)
		}
		aead, err := newAEAD(k.Bytes)
		if err != nil {
			return nil, fmt.Errorf("keyring: key %q: %w", k.ID, err)
		}
		ring.keys[k.ID] = aead
	}
	return ring, nil
}

func checkKey(k Key) error {
	if !keyName.MatchString(k.ID) {
		return fmt.Errorf("%q is not a valid key id; use 1 to 64 letters, digits, dots, underscores and dashes", k.ID)
	}
	if len(k.Bytes) != keySize {
		return fmt.Errorf("key %q has %d bytes, but must have %d", k.ID, len(k.Bytes), keySize)
	}
	if !LooksRandom(k.Bytes) {
		return fmt.Errorf("key %q looks like an example key; replace it with random bytes", k.ID)
	}
	return nil
}

// LooksRandom reports whether a key of 32 bytes, or its text form, looks random and not like an example key. It
// requires 12 distinct bytes. 32 random bytes have fewer only with a probability far below 10^-15, but zeros or a
// repeated short word always have fewer.
func LooksRandom(key []byte) bool {
	const least = 12
	distinct := map[byte]bool{}
	for _, b := range key {
		distinct[b] = true
	}
	return len(distinct) >= least
}

// Seal encrypts the given bytes. The parameter aad (additional data) names the column and the row of the value as
// "table.column:id".
//
// The result consists of the version, the length of the key id, the key id, the wrapped data key (nonce, 32 bytes,
// tag) and the value (nonce, bytes, tag). The wrapped data key is bound to the key id and aad, and the value to aad.
func (k *Keyring) Seal(plain []byte, aad string) ([]byte, error) {
	dek := make([]byte, keySize)
	if _, err := rand.Read(dek); err != nil {
		return nil, fmt.Errorf("encrypt a value: %w", err)
	}
	inner, err := newAEAD(dek)
	if err != nil {
		return nil, fmt.Errorf("encrypt a value: %w", err)
	}
	return inner.Seal(k.wrap(dek, aad), nil, plain, bind("value", aad)), nil // #nosec G407 -- newAEAD generates random nonces
}

// Open decrypts a result of Seal for the same aad, or returns ErrOpen.
func (k *Keyring) Open(sealed []byte, aad string) ([]byte, error) {
	dek, value, err := k.unwrap(sealed, aad)
	if err != nil {
		return nil, err
	}
	inner, err := newAEAD(dek)
	if err != nil {
		return nil, fmt.Errorf("decrypt a value: %w", err)
	}
	plain, err := inner.Open(nil, nil, value, bind("value", aad))
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// Rewrap wraps the data key of an encrypted value with the first key of the ring. The encrypted bytes stay the same.
// The result changed is false if the first key already wraps the data key.
func (k *Keyring) Rewrap(sealed []byte, aad string) (out []byte, changed bool, err error) {
	dek, value, err := k.unwrap(sealed, aad)
	if err != nil {
		return nil, false, err
	}
	if id, _, _ := split(sealed); id == k.active {
		return sealed, false, nil
	}
	return append(k.wrap(dek, aad), value...), true, nil
}

func (k *Keyring) wrap(dek []byte, aad string) []byte {
	out := append([]byte{version, byte(len(k.active))}, k.active...)
	return k.keys[k.active].Seal(out, nil, dek, bind("key "+k.active, aad)) // #nosec G407 -- newAEAD generates random nonces
}

func (k *Keyring) unwrap(sealed []byte, aad string) (dek, value []byte, err error) {
	id, rest, ok := split(sealed)
	const wrapped = nonceSize + keySize + tagSize
	if !ok || len(rest) < wrapped+nonceSize+tagSize {
		return nil, nil, ErrOpen
	}
	outer, ok := k.keys[id]
	if !ok {
		return nil, nil, fmt.Errorf("%w: key %q is not in the keyring", ErrOpen, id)
	}
	dek, err = outer.Open(nil, nil, rest[:wrapped], bind("key "+id, aad))
	if err != nil {
		return nil, nil, ErrOpen
	}
	return dek, rest[wrapped:], nil
}

func split(sealed []byte) (id string, rest []byte, ok bool) {
	if len(sealed) < 2 || sealed[0] != version || len(sealed) < 2+int(sealed[1]) {
		return "", nil, false
	}
	n := 2 + int(sealed[1])
	id = string(sealed[2:n])
	return id, sealed[n:], keyName.MatchString(id)
}

// bind returns the additional data for one use, so that a wrapped data key cannot be used as a value or vice versa.
func bind(use, aad string) []byte { return []byte("signalbox " + use + "\x00" + aad) }

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
