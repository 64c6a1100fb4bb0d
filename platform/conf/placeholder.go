package conf

import (
	"net/url"
	"strings"
	"unicode"
)

// placeholder reports whether a text is an example value instead of a secret. Example values are: a word accepted by
// exampleWord, once or repeated; a repeated character; a text that contains a word such as "changeme"; a text in angle
// brackets. In a URL, only the password is checked. An empty text is not a placeholder.
func placeholder(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > longestExample {
		return false
	}
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.User == nil {
			return false // the code that uses the URL reports the error
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

// longestExample is the length in bytes above which a text is never considered a placeholder.
const longestExample = 512

// exampleWord reports whether a word is commonly used in place of a secret.
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

// period returns the shortest string whose repetition is the given text. It returns the text itself if it is not a
// repetition.
func period(text string) string {
	for n := 1; n <= len(text)/2; n++ {
		if len(text)%n == 0 && strings.Repeat(text[:n], len(text)/n) == text {
			return text[:n]
		}
	}
	return text
}
