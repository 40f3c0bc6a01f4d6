//! What holds for all configurations and all processes.

use std::time::Duration;

use gpreempt_core::{GpuParams, JobParams, Level, Nanos, Patience, Permille, PolicyKind};
use gpreempt_proto::Mode;
use proptest::option;
use proptest::prelude::*;

use super::parse;
use crate::actuate::ActuatorChoice;
use crate::config::accounts::Accounts;
use crate::config::{
    Account, Breaker, Config, Glob, GpuRule, Grouping, INIT, Requests, Rule, RuleMatch, RuleSettings, Trusted, Watch,
    WatchMethod,
};
use crate::identity::Identity;

fn duration(nanos: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> {
    nanos.prop_map(Duration::from_nanos)
}

fn time(most_ms: u64) -> impl Strategy<Value = Nanos> {
    (0..=most_ms * 1_000_000).prop_map(Nanos)
}

fn share() -> impl Strategy<Value = Permille> {
    (0u16..=1000).prop_map(Permille::new)
}

fn level() -> impl Strategy<Value = Level> {
    (0u8..=15).prop_map(|level| Level::new(level).unwrap_or_default())
}

/// Patterns of all characters, those included that files have to escape.
fn glob() -> impl Strategy<Value = Glob> {
    "[^\\[\\r]{1,12}".prop_map(|text| Glob::new(&text).expect("no set, no error"))
}

fn account() -> impl Strategy<Value = Account> {
    let numbered = (0..u32::MAX).prop_map(|id| Account::One { id, name: None });
    let root = Just(Account::One { id: 0, name: Some("root".to_string()) });
    prop_oneof![Just(Account::Any), numbered, root]
}

fn params() -> impl Strategy<Value = JobParams> {
    let patience = (any::<bool>(), time(1000))
        .prop_map(|(fixed, max)| if fixed { Patience::Fixed(max) } else { Patience::Adaptive { max } });
    let times = (time(60_000), time(86_400_000), time(3_600_000), time(3_600_000), time(3_600_000), time(3_600_000));
    let shares = (share(), share(), 10u16..=1000, 1u16..=10_000);
    (level(), patience, times, shares).prop_map(|(level, patience, times, (stop_share, request, limit, weight))| {
        let (min_run, max_stop, age_step, period, deadline, runtime) = times;
        JobParams {
            level,
            patience,
            min_run,
            max_stop: max_stop.max(Nanos::from_millis(1)),
            age_step,
            stop_share,
            weight,
            request,
            limit: Permille::new(limit),
            period,
            deadline,
            runtime,
        }
    })
}

fn settings() -> impl Strategy<Value = RuleSettings> {
    let grouping = prop_oneof![
        Just(Grouping::Process),
        Just(Grouping::Cgroup),
        Just(Grouping::User),
        Just(Grouping::Slurm),
        "job-[a-z\"']{0,8}(\\{user\\}|\\{slurm\\}|\\{cgroup\\})?".prop_map(Grouping::Named),
    ];
    (level(), grouping, params()).prop_map(|(max_level, grouping, params)| RuleSettings { max_level, grouping, params })
}

fn rule() -> impl Strategy<Value = Rule> {
    let trusted = (account(), option::of(account()), option::of(glob()), option::of(glob()))
        .prop_map(|(user, group, cgroup, container)| Trusted { user: Some(user), group, cgroup, container });
    let environment = proptest::collection::btree_map("[A-Z_][A-Z0-9_]{0,6}", glob(), 0..3);
    let requests = (option::of(glob()), option::of(glob()), environment)
        .prop_map(|(executable, command, environment)| Requests { executable, command, environment });
    (trusted, requests, option::of(settings())).prop_map(|(trusted, requests, settings)| Rule {
        name: String::new(),
        trusted,
        requests,
        settings,
    })
}

fn gpu() -> impl Strategy<Value = GpuRule> {
    let policy = prop_oneof![Just(PolicyKind::Priority), Just(PolicyKind::Fair), Just(PolicyKind::Deadline)];
    let numbers = (time(10_000), 0u32..=100_000, 1u32..=100_000, time(1000), 1_000u64..=1_000_000_000);
    ("[0-9a-f:.*?]{1,12}", any::<bool>(), policy, numbers, share(), any::<bool>()).prop_map(
        |(pattern, manage, policy, (slice, cycles_per_second, cycle_burst, linger_max, cycle), small, weigh)| GpuRule {
            gpu: Glob::new(&pattern).expect("no set, no error"),
            manage,
            // What is not managed has no settings.
            params: if manage {
                GpuParams {
                    policy,
                    slice,
                    cycles_per_second,
                    cycle_burst,
                    linger_max,
                    small,
                    weigh,
                    cycle_estimate: Nanos(cycle),
                    ..GpuParams::default()
                }
            } else {
                GpuParams::default()
            },
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let second = 1_000_000_000;
    let own = (1u32..=1000, duration(10_000..=10_000_000), any::<bool>(), option::of(0usize..=4095));
    let kernel = (0usize..2, duration(50_000..=second), duration(10_000_000..=60 * second));
    let watch = (own, kernel).prop_map(|((cpu, period, fixed, spin_core), (method, kernel_period, net))| Watch {
        cpu: f64::from(cpu) / 1000.0,
        period,
        fixed,
        spin_core,
        method: WatchMethod::WORDS[method].1,
        kernel_period,
        net,
    });
    let breaker = (
        (1u32..=10_000, 1u32..=10_000, 0u32..=1_000_000),
        duration(1_000_000..=9_000_000_000),
        duration(second..=3_600 * second),
        duration(second..=86_400 * second),
        duration(second..=86_400 * second),
    )
        .prop_map(|((failures, slow, control_one_in), slow_after, window, one, other)| Breaker {
            failures,
            slow,
            slow_after,
            window,
            pause: one.min(other),
            longest: one.max(other),
            control_one_in,
        });
    let scan_and_keep = (duration(1_000_000..=10_000_000), duration(0..=3600 * second));
    let times = (scan_and_keep, duration(0..=600 * second), duration(second..=604_800 * second));
    let numbers = ((any::<bool>(), 0usize..4), option::of(1u8..=255), 0usize..=1_000_000);
    let lists = (proptest::collection::vec(rule(), 0..5), proptest::collection::vec(gpu(), 0..3));
    (numbers, times, watch, breaker, lists).prop_map(
        |(
            ((enforce, actuator), grace_kiloclocks, log_events),
            ((scan, keep), term_grace, hold_max),
            watch,
            breaker,
            (mut rules, gpus),
        )| {
            for (index, rule) in rules.iter_mut().enumerate() {
                rule.name = format!("name \"{index}\" = # '");
            }
            let accounts = if rules.is_empty() { Accounts::default() } else { Accounts::of_this_machine() };
            Config {
                source: None,
                mode: if enforce { Mode::Enforce } else { Mode::Observe },
                actuator: ActuatorChoice::WORDS[actuator].1,
                keep,
                scan,
                watch,
                grace_kiloclocks,
                term_grace,
                hold_max,
                breaker,
                log_events,
                rules,
                gpus,
                accounts,
            }
        },
    )
}

fn identity() -> impl Strategy<Value = Identity> {
    let asked = prop_oneof![".{0,80}", "[0-9 +-]{0,4}", "[a-zA-Z0-9._/-]{0,70}"];
    let environment = proptest::collection::btree_map(
        prop_oneof![
            Just("GPREEMPT_LEVEL".to_string()),
            Just("GPREEMPT_JOB".to_string()),
            ".{0,8}".prop_map(String::from)
        ],
        asked,
        0..4,
    );
    let cgroup = prop_oneof![".{0,30}", "(/slurm)?(/user.slice)?/job_[0-9]{0,30}(/x)?"];
    (
        any::<u32>(),
        any::<u32>(),
        cgroup,
        option::of(".{0,20}"),
        ".{0,30}",
        proptest::collection::vec(".{0,20}", 0..4),
        environment,
    )
        .prop_map(|(uid, gid, cgroup, container, executable, command, environment)| Identity {
            uid,
            gid,
            cgroup,
            container,
            executable,
            command,
            environment,
            ..Identity::default()
        })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same_configuration(config in config()) {
        let printed = config.print();
        match Config::parse("printed", &printed) {
            Ok(read) => prop_assert_eq!(read, config, "{}", printed),
            Err(error) => prop_assert!(false, "{error}\n{printed}"),
        }
    }

    #[test]
    fn no_configuration_makes_warnings_panic(config in config()) {
        let _ = config.warnings();
    }

    #[test]
    fn nothing_a_process_says_lifts_it_above_what_its_rule_allows_or_into_the_job_of_another(
        config in config(), process in identity(),
    ) {
        let asked = process.environment.contains_key("GPREEMPT_JOB");
        if let RuleMatch::Managed(assignment) = config.match_rules(&process) {
            let rule = config.rules.iter().find(|rule| rule.name == assignment.rule).expect("it exists");
            let settings = rule.settings.as_ref().expect("it gives a level");
            prop_assert!(assignment.params.level <= settings.max_level);
            prop_assert_eq!(assignment.max_level, settings.max_level);
            prop_assert_eq!(JobParams { level: settings.params.level, ..assignment.params }, settings.params);
            let own = format!("{}/", config.user_name(process.uid));
            let mut silent = process.clone();
            silent.environment.remove("GPREEMPT_JOB");
            if asked && !assignment.job.starts_with(&own) {
                // A refused name changes nothing.
                let without = config.assignment(&silent).map(|assignment| assignment.job);
                prop_assert!(without.is_none() || without == Some(assignment.job));
            }
            prop_assert!(assignment.notes.iter().all(|note| !note.chars().any(char::is_control)));
        }
    }

    #[test]
    fn no_file_makes_the_parser_panic(text in "([a-z_]{1,9}( = |=)?|\\[\\[?(rule|gpu|watch)\\]\\]?|\"|\n|\n|[0-9.{}\\[\\]-]|ä|user = \"\\*\"|level = ){0,30}") {
        if let Err(error) = Config::parse("f.toml", &text) {
            prop_assert!(error.to_string().starts_with("f.toml:"));
        }
    }

    #[test]
    fn a_file_with_a_byte_changed_is_refused_or_read_but_never_a_panic(at in 0usize..INIT.len(), with in any::<char>()) {
        let at = INIT.floor_char_boundary(at);
        let rest = INIT[at..].chars().next().map_or(at, |gone| at + gone.len_utf8());
        let _ = Config::parse("f.toml", &format!("{}{with}{}", &INIT[..at], &INIT[rest..]));
    }
}

#[test]
fn printing_a_file_that_was_read_twice_gives_the_same_text() {
    let first = parse(INIT).print();
    assert_eq!(parse(&first).print(), first);
}
