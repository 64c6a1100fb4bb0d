package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
)

// ErrOpen is what Open answers for a value that was not sealed by a key of this
// ring for this place: changed, swapped between rows, or sealed elsewhere.
var ErrOpen = errors.New("the sealed value does not open here")

var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

const (
	keySize   = 32
	nonceSize = 12
	tagSize   = 16
	version   = 1
)

// Key is one key-encryption key.
type Key struct {
	ID    string
	Bytes []byte // 32
}

// Keyring seals values with its first key and opens those of every key, so that
// keys are rotated by putting a new one in front. Each value has a key of its
// own (AES-256-GCM), wrapped by the ring's key.
type Keyring struct {
	active string
	keys   map[string]cipher.AEAD
}

// NewKeyring makes a ring; the first key seals. It refuses an empty ring and
// keys that are short, repeated, or plainly not random.
func NewKeyring(keys ...Key) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("keyring: no key")
	}
	ring := &Keyring{active: keys[0].ID, keys: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return nil, fmt.Errorf("keyring: %w", err)
		}
		if ring.keys[k.ID] != nil {
			return nil, fmt.Errorf("keyring: key %q is there twice", k.ID)
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
		return fmt.Errorf("%q is no key id: 1 to 64 letters, digits, dots, dashes", k.ID)
	}
	if len(k.Bytes) != keySize {
		return fmt.Errorf("key %q has %d bytes, want %d", k.ID, len(k.Bytes), keySize)
	}
	if !LooksRandom(k.Bytes) {
		return fmt.Errorf("key %q is not random: an example key?", k.ID)
	}
	return nil
}

// LooksRandom tells a key of 32 bytes or their text from what a person types or an example shows. It counts
// distinct bytes: 32 random ones have fewer than 12 once in far more than 10^15 draws, while zeros and typed
// words have them always.
func LooksRandom(key []byte) bool {
	const least = 12
	distinct := map[byte]bool{}
	for _, b := range key {
		distinct[b] = true
	}
	return len(distinct) >= least
}

// Seal encrypts plain for the place that aad names, "table.column:id".
//
// The result is: version, length of the key id, key id, the wrapped key (nonce,
// 32 bytes, tag), the value (nonce, bytes, tag). All before the value is bound
// to it, and aad to both.
func (k *Keyring) Seal(plain []byte, aad string) ([]byte, error) {
	dek := make([]byte, keySize)
	if _, err := rand.Read(dek); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	inner, err := newAEAD(dek)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return inner.Seal(k.wrap(dek, aad), nil, plain, bind("value", aad)), nil // #nosec G407 -- newAEAD draws the nonce itself
}

// Open decrypts what Seal made for the same aad.
func (k *Keyring) Open(sealed []byte, aad string) ([]byte, error) {
	dek, value, err := k.unwrap(sealed, aad)
	if err != nil {
		return nil, err
	}
	inner, err := newAEAD(dek)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	plain, err := inner.Open(nil, nil, value, bind("value", aad))
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// Rewrap moves a sealed value to the ring's first key without touching the
// encrypted bytes; changed is false when it is there already.
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
	return k.keys[k.active].Seal(out, nil, dek, bind("key "+k.active, aad)) // #nosec G407 -- newAEAD draws the nonce itself
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

// bind keeps a wrapped key from standing in for a value and the reverse.
func bind(use, aad string) []byte { return []byte("signalbox " + use + "\x00" + aad) }

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
