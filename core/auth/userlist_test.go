package auth

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// [faults C 58] a list of users holds none of their secrets.
func TestListUsers(t *testing.T) {
	path := userFile(t, "ann:"+mosquitto6+" groups=ops psk="+psk+"\nbob:* cra=1000$saltsalt$"+strings.Repeat("A", 43)+"= max-bytes=7\ncy d:*\n")
	got, err := ListUsers(path)
	want := []Listed{
		{"ann", true, []string{"groups=ops", "psk"}},
		{"bob", false, []string{"cra", "max-bytes=7"}},
		{"cy d", false, []string{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v", err, got)
	}
	if text := fmt.Sprint(got); strings.Contains(text, psk) || strings.Contains(text, "saltsalt") {
		t.Error(text)
	}
	if _, err := ListUsers(userFile(t, "ann:* psk=00\n")); err == nil || !strings.Contains(err.Error(), ":1: user ann: psk") {
		t.Error(err)
	}
	if _, err := ListUsers(path + "none"); err == nil {
		t.Error("no such file, and no error")
	}
}

// What an attribute is set to cannot reach into the next one, or the next line.
func TestAttributesStayApart(t *testing.T) {
	path := userFile(t, "ann:"+mosquitto6+"\n")
	for _, value := range []string{"a psk=" + psk, "a\nbob:*", "a\r", "a\tb", " a"} {
		_, err := ChangeUser(path, "ann", Change{Attributes: map[string]string{"listeners": value}})
		if err == nil || err.Error() != "listeners: no blanks in it" {
			t.Errorf("%q: %v", value, err)
		}
	}
	if text := readIf(path); text != "ann:"+mosquitto6+"\n" {
		t.Error(text)
	}
}

// A user is found though the line is bad: with a new password it is good again.
func TestHasUser(t *testing.T) {
	path := userFile(t, "ann:secret\nbob:*\n")
	for _, c := range []struct {
		path, name string
		want       bool
	}{
		{path, "ann", true},
		{path, "bob", true},
		{path, "an", false},
		{path, "ann:secret", false},
		{path + "none", "ann", false},
	} {
		if got, err := HasUser(c.path, c.name); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	if _, err := HasUser(userFile(t, "ann\n"), "ann"); err == nil {
		t.Error("a file without a colon, and no error")
	}
	if _, err := ListUsers(path); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if _, err := ChangeUser(path, "ann", Change{NoPassword: true}); err != nil {
		t.Error(err)
	}
	if got, err := ListUsers(path); err != nil || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
