package secret

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
)

const (
	kindLength = 3
	bodyLength = 43 // base62 digits of 256 bits
	sumLength  = 6  // base62 digits of a CRC32
	base62     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Mint creates a token with 256 bits from r: "<kind>_<43 base62 digits><6 base62 digits>". The last six digits are the
// CRC32 of the text before them. The checksum lets a scanner or a server reject a mistyped token without a lookup; it
// is not a security measure.
func Mint(r io.Reader, kind string) (String, error) {
	if len(kind) != kindLength || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") != "" {
		return String{}, fmt.Errorf("create token: kind %q is not %d lower-case letters", kind, kindLength)
	}
	var raw [32]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return String{}, fmt.Errorf("create token: read random bytes: %w", err)
	}
	head := kind + "_" + encode(new(big.Int).SetBytes(raw[:]), bodyLength)
	return New(head + checksum(head)), nil
}

// Kind returns the kind of a well-formed token, and "" for any other text.
func Kind(s string) string {
	const headLength = kindLength + 1 + bodyLength
	if len(s) != headLength+sumLength || s[kindLength] != '_' || s[headLength:] != checksum(s[:headLength]) {
		return ""
	}
	if strings.Trim(s[:kindLength], "abcdefghijklmnopqrstuvwxyz") != "" || strings.Trim(s[kindLength+1:], base62) != "" {
		return ""
	}
	return s[:kindLength]
}

// Parse checks the kind and the checksum of a token and returns the hash under which it is stored. The result ok means
// only that the token is well-formed, not that it was issued.
func Parse(kind, s string) (hash []byte, ok bool) {
	if kind == "" || Kind(s) != kind {
		return nil, false
	}
	return Hash(s), true
}

// Hash returns the SHA-256 of the whole token. Only this hash is stored.
func Hash(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

func checksum(head string) string {
	var digits [sumLength]byte
	sum := crc32.ChecksumIEEE([]byte(head))
	for i := range digits {
		digits[len(digits)-1-i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(digits[:])
}

func encode(n *big.Int, width int) string {
	digits := make([]byte, width)
	base, rest := big.NewInt(int64(len(base62))), new(big.Int)
	for i := width - 1; i >= 0; i-- {
		n.QuoRem(n, base, rest)
		digits[i] = base62[rest.Int64()]
	}
	return string(digits)
}
