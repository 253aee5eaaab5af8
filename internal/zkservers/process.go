//go:build unix

package zkservers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// command returns the command of a server with a configuration.
func command(dir, config string) (*exec.Cmd, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("no Java runtime: run make databases, or see .ci/zookeeper: %w", err)
	}
	jars, err := classPath()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", // if that logger is there
		"-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	cmd.Dir = dir
	return cmd, nil
}

// classPath returns where ZooKeeper is: in ZOOKEEPER_HOME, or where packages put it.
func classPath() (string, error) {
	patterns := []string{
		"/usr/share/java/zookeeper.jar", // Debian, whose file names what it needs
		"/opt/homebrew/opt/zookeeper/libexec/lib/*.jar", "/usr/local/opt/zookeeper/libexec/lib/*.jar",
		"/usr/share/zookeeper/lib/*.jar", "/opt/zookeeper/lib/*.jar",
	}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		patterns = append([]string{filepath.Join(home, "lib", "*.jar")}, patterns...)
	}
	for _, pattern := range patterns {
		if jars, err := filepath.Glob(pattern); err == nil && len(jars) > 0 {
			jars = append(jars, "/usr/share/java/slf4j-simple.jar") // Debian's own has no logger
			return strings.Join(jars, string(os.PathListSeparator)), nil
		}
	}
	return "", errors.New("ZooKeeper is missing: run make databases, or see .ci/zookeeper")
}
