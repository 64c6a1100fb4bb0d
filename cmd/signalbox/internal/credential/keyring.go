package credential

import (
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
)

// service is the name under which the keyring of the operating system has the logins.
const service = "signalbox"

// keyringTimeout is how long the keyring may take. It can wait for a person who unlocks it, or for ever.
const keyringTimeout = 10 * time.Second

// system is the keyring of the operating system.
type system struct{}

// NewKeyring returns the keyring of the operating system.
func NewKeyring() Store { return system{} }

func (system) Kind() string { return Keyring }

func (system) Get(context string) (Credential, error) {
	text, err := within(func() (string, error) { return keyring.Get(service, context) })
	if errors.Is(err, keyring.ErrNotFound) {
		return Credential{}, ErrNone
	}
	if err != nil {
		return Credential{}, fmt.Errorf("read the login from the keyring: %w", err)
	}
	return decode(text)
}

func (system) Set(context string, c Credential) error {
	text, err := encode(c)
	if err != nil {
		return err
	}
	if _, err := within(func() (string, error) { return "", keyring.Set(service, context, text) }); err != nil {
		return fmt.Errorf("store the login in the keyring: %w", err)
	}
	return nil
}

func (system) Delete(context string) error {
	_, err := within(func() (string, error) { return "", keyring.Delete(service, context) })
	if err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("delete the login from the keyring: %w", err)
	}
	return nil
}

// Probe stores, reads and deletes a value, to learn whether the keyring works.
func Probe() error {
	const name, value = "probe", "probe"
	_, err := within(func() (string, error) {
		if err := keyring.Set(service, name, value); err != nil {
			return "", err
		}
		got, err := keyring.Get(service, name)
		if err == nil && got != value {
			err = errors.New("the keyring returned another value than the stored one")
		}
		return "", errors.Join(err, keyring.Delete(service, name))
	})
	return err
}

// within calls fn, but waits for it only for a limited time: the keyring has no deadline of its own. A call that takes
// longer ends with the process.
func within(fn func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := fn()
		done <- result{text, err}
	}()
	timer := time.NewTimer(keyringTimeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.text, r.err
	case <-timer.C:
		return "", fmt.Errorf("the keyring has not responded for %s", keyringTimeout)
	}
}

// Open returns the store of the given kind. Dir is the folder of the file.
func Open(kind, dir string) (Store, error) {
	switch kind {
	case Keyring:
		return NewKeyring(), nil
	case File:
		return NewFile(dir), nil
	}
	return nil, fmt.Errorf("%q is not a credential store; use keyring or file", kind)
}

// Choose returns the store for a new login: the given kind, or the keyring if it works, or otherwise the file; reason is
// then why the keyring cannot be used. A keyring that was asked for and does not work is an error.
func Choose(kind, dir string) (s Store, reason, err error) {
	switch kind {
	case "":
		if err := Probe(); err != nil {
			return NewFile(dir), err, nil
		}
		return NewKeyring(), nil, nil
	case Keyring:
		if err := Probe(); err != nil {
			return nil, nil, fmt.Errorf("the keyring does not work: %w", err)
		}
	}
	s, err = Open(kind, dir)
	return s, nil, err
}
