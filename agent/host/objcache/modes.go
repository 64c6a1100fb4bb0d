package objcache

import "os"

// modes are the modes of new files, executable files and folders.
type modes struct{ file, program, folder os.FileMode }

func private() modes { return modes{file: 0o600, program: 0o700, folder: 0o700} }

func readable() modes { return modes{file: 0o644, program: 0o755, folder: 0o755} }

// setMode sets the mode of a new file, which may have fewer rights because of the umask.
func setMode(f *os.File, mode os.FileMode) error {
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != mode {
		err = f.Chmod(mode)
	}
	return err
}
