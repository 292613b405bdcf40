package natsqueue

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// inboxPrefix returns where answers to this client go: _INBOX and what names its user, so that a server can let each user read its own
// answers alone. The name is that of the URL, or the public key of an nkey or of credentials; without a user it is _INBOX.
func inboxPrefix(servers string, cfg Config) (string, error) {
	user := ""
	for server := range strings.SplitSeq(servers, ",") {
		if u, err := url.Parse(strings.TrimSpace(server)); err == nil && u.User != nil && user == "" {
			if _, hasPassword := u.User.Password(); hasPassword { // alone it is a token
				user = u.User.Username()
			}
		}
	}
	file := cfg.NKeySeedFile
	if cfg.CredentialsFile != "" {
		file = cfg.CredentialsFile
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("natsqueue: %w", err)
		}
		pair, err := nkeys.ParseDecoratedNKey(text)
		if err != nil {
			return "", fmt.Errorf("natsqueue: %s holds no seed of an nkey", file)
		}
		defer pair.Wipe()
		if user, err = pair.PublicKey(); err != nil {
			return "", fmt.Errorf("natsqueue: %s: %w", file, err)
		}
	}
	if user == "" {
		return "_INBOX", nil
	}
	return "_INBOX." + token(user), nil
}
