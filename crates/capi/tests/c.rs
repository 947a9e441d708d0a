//! The interface as C and C++ programs meet it: installed, compiled by gcc and g++, linked both ways, run.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What every program is compiled with: any doubt of the compiler about the header is an error.
const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"];

/// What a static library of Rust wants of the system.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

struct Language {
    compiler: &'static str,
    args: [&'static str; 3],
}

const C: Language = Language { compiler: "gcc", args: ["-std=c11", "-x", "c"] };
const CPP: Language = Language { compiler: "g++", args: ["-std=c++17", "-x", "c++"] };

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        // Not by a macro: the harness keeps to itself what those print in a test that passes.
        let skipped = format!("{program} is not on this machine, so nothing was compiled with it");
        _ = writeln!(io::stderr(), "\n*** SKIPPED: {skipped} ***\n");
    }
    there
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Foreshore as a user has it.
struct Installed {
    dir: tempfile::TempDir,
}

/// Installs it, by somebody who keeps what he makes to himself.
fn install(prefix: &Path, staged: &Path) {
    let exe = std::env::current_exe().unwrap();
    let libraries = exe.parent().expect("tests lie beside the libraries that they were built with");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    run(Command::new("sh")
        .args(["-c", "umask 077; exec sh \"$0\" \"$@\""])
        .arg(script)
        .arg("--prefix")
        .arg(prefix)
        .arg("--from")
        .arg(libraries)
        .env("DESTDIR", staged));
}

impl Installed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        install(dir.path(), Path::new(""));
        Self { dir }
    }

    fn lib(&self) -> PathBuf {
        self.dir.path().join("lib")
    }

    /// Compiles a program of the folder `c/`, or one elsewhere, with the flags of `link`, runs it on an empty directory, returns
    /// what it says.
    fn compile_and_run(&self, language: &Language, source: impl AsRef<Path>, link: &[String]) -> String {
        let program = self.dir.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(source);
        run(Command::new(language.compiler)
            .args(WARNINGS)
            .args(language.args)
            .arg(source)
            .args(["-x", "none", "-pthread", "-o"])
            .arg(&program)
            .arg(format!("-I{}", self.dir.path().join("include").display()))
            .args(link));
        let database = tempfile::tempdir().unwrap();
        let output = run(Command::new(program)
            .arg(database.path().join("db"))
            .current_dir(database.path())
            .env("LD_LIBRARY_PATH", self.lib()));
        String::from_utf8(output.stdout).expect("programs here write text")
    }

    fn shared(&self) -> Vec<String> {
        vec![format!("-L{}", self.lib().display()), "-lforeshore".into()]
    }

    fn fixed(&self) -> Vec<String> {
        let library = self.lib().join("libforeshore.a").display().to_string();
        std::iter::once(library).chain(SYSTEM.map(String::from)).collect()
    }
}

#[test]
fn what_is_installed_is_for_everybody() {
    let dir = tempfile::tempdir().unwrap();
    install(&dir.path().join("p"), Path::new(""));
    for (name, wanted) in
        [("lib/pkgconfig", 0o555), ("lib/pkgconfig/foreshore.pc", 0o444), ("include", 0o555)]
    {
        let mode = std::fs::metadata(dir.path().join("p").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & wanted, wanted, "{name}: {mode:o}");
    }
}

/// A package is put together elsewhere than where it will be.
#[test]
fn a_package_names_the_prefix_as_it_will_be() {
    let stage = tempfile::tempdir().unwrap();
    install(Path::new("/usr"), stage.path());
    let names = std::fs::read_to_string(stage.path().join("usr/lib/pkgconfig/foreshore.pc")).unwrap();
    assert!(names.contains("prefix=/usr\n"), "{names}");
    assert!(stage.path().join("usr/include/foreshore.h").exists());
}

#[test]
fn c_programs_work() {
    if !is_there(C.compiler) {
        return;
    }
    let installed = Installed::new();
    for link in [installed.shared(), installed.fixed()] {
        assert_eq!(installed.compile_and_run(&C, "api.c", &link), "all is well\n", "{link:?}");
    }
}

#[test]
fn cpp_programs_work() {
    if !is_there(CPP.compiler) {
        return;
    }
    let installed = Installed::new();
    assert_eq!(installed.compile_and_run(&CPP, "api.c", &installed.shared()), "all is well\n");
}

/// The program in docs/c.md.
#[test]
fn the_first_program_works() {
    if !is_there(C.compiler) {
        return;
    }
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/c.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let program =
        guide.split_once("```c\n").and_then(|(_, rest)| rest.split_once("```")).expect("a program in C").0;
    let installed = Installed::new();
    let source = installed.dir.path().join("first.c");
    std::fs::write(&source, program).unwrap();
    assert_eq!(installed.compile_and_run(&C, &source, &installed.shared()), "-10 min late\n");
}

/// The example that docs/c.md names, with the flags that pkg-config tells.
#[test]
fn the_example_works() {
    if !is_there(C.compiler) || !is_there("pkg-config") {
        return;
    }
    let installed = Installed::new();
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "foreshore"])
        .env("PKG_CONFIG_PATH", installed.lib().join("pkgconfig")));
    let flags = String::from_utf8(flags.stdout).unwrap();
    let flags: Vec<_> = flags.split_whitespace().map(String::from).collect();
    let said = installed.compile_and_run(&C, "bank.c", &flags);
    assert!(said.ends_with("ada 600, ben 1400: together 2000\n"), "{said}");
}

/// Only what the header declares is visible: nothing else can clash with a program's own names.
#[test]
fn only_the_interface_is_exported() {
    if !is_there("nm") {
        return;
    }
    let installed = Installed::new();
    let library = installed.lib().join("libforeshore.so");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library));
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let header = std::fs::read_to_string(installed.dir.path().join("include/foreshore.h")).unwrap();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is exported, but not declared");
    }
}
