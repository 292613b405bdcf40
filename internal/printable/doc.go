// Package printable makes what comes from outside fit to be shown: texts lose what would steer a terminal or make a line read otherwise
// than it is written, and addresses lose what opens a door. Everything that documents, models, servers and clients have a hand in goes
// through it before it is printed or logged.
package printable
