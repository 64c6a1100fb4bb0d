package conf

import (
	"net/url"
	"strings"
	"unicode"
)

// placeholder tells an example of a secret from a secret: the words that documentation and images of others
// put in the place of one, one sign or word over and over, and what stands in angle brackets. Of a URL its
// password is looked at. The empty text is no example.
func placeholder(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > longestExample {
		return false
	}
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.User == nil {
			return false // whoever opens it says what is wrong
		}
		text, _ = u.User.Password()
	}
	if strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">") {
		return true
	}
	plain := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
	for _, part := range []string{"changeme", "changethis", "changeit", "replaceme", "replacethis", "placeholder", "yoursecret", "yourpassword", "insertyour"} {
		if strings.Contains(plain, part) {
			return true
		}
	}
	switch word := period(plain); {
	case len(plain) > 1 && len(word) == 1:
		return true
	default:
		return exampleWord(word)
	}
}

// longestExample is beyond what anybody gives as an example, in bytes.
const longestExample = 512

// exampleWord tells a word that stands for a secret and is none.
func exampleWord(word string) bool {
	switch word {
	case "secret", "supersecret", "mysecret", "secretkey", "password", "passwd", "mypassword", "example", "examplekey", "default", "todo", "test",
		"admin", "administrator", "root", "postgres", "minioadmin", "signalbox", "letmein", "qwerty", "qwertyuiop",
		"12345678", "123456789", "1234567890", "0123456789", "password123", "admin123":
		return true
	default:
		return false
	}
}

// period is the shortest text that gives this one when it is repeated.
func period(text string) string {
	for n := 1; n <= len(text)/2; n++ {
		if len(text)%n == 0 && strings.Repeat(text[:n], len(text)/n) == text {
			return text[:n]
		}
	}
	return text
}
