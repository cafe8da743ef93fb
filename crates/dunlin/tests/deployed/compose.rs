//! deploy/compose.yaml, as far as a test asks it.

use yaml_rust2::{Yaml, YamlLoader};

pub struct Compose(Yaml);

impl Compose {
    pub fn read() -> Compose {
        let mut documents = YamlLoader::load_from_str(&super::read("compose.yaml")).unwrap();
        assert_eq!(documents.len(), 1);
        Compose(documents.remove(0))
    }

    pub fn services(&self) -> Vec<String> {
        names(&self.0["services"])
    }

    /// The services that run our image.
    pub fn dunlins(&self) -> Vec<String> {
        self.services().into_iter().filter(|name| self.of(name, "image").as_str() == Some("dunlin")).collect()
    }

    pub fn has(&self, kind: &str, name: &str) -> bool {
        !self.0[kind][name].is_badvalue()
    }

    pub fn words(&self, service: &str, key: &str) -> Vec<String> {
        texts(self.of(service, key))
    }

    pub fn health_check(&self, service: &str) -> Vec<String> {
        texts(&self.of(service, "healthcheck")["test"])
    }

    pub fn environment(&self, service: &str) -> Vec<(String, String)> {
        let environment = self.of(service, "environment");
        let names = names(environment).into_iter().chain(names(&environment["<<"])).filter(|name| name != "<<");
        names.map(|name| (name.clone(), merged(environment, &name).as_str().expect("values are texts").to_owned())).collect()
    }

    /// What a service says is elsewhere in the file: kind and name.
    pub fn named(&self, service: &str) -> Vec<(&'static str, String)> {
        let mut named: Vec<(&'static str, String)> = Vec::new();
        named.extend(names(self.of(service, "depends_on")).into_iter().map(|name| ("services", name)));
        let networks = self.of(service, "networks");
        named.extend(names(networks).into_iter().chain(texts(networks)).map(|name| ("networks", name)));
        named.extend(texts(self.of(service, "secrets")).into_iter().map(|name| ("secrets", name)));
        let volumes = texts(self.of(service, "volumes"));
        named.extend(volumes.iter().map(|volume| ("volumes", volume.split(':').next().unwrap().to_owned())));
        let configs = self.of(service, "configs").as_vec().into_iter().flatten();
        named.extend(configs.map(|config| ("configs", config["source"].as_str().unwrap().to_owned())));
        named
    }

    /// The files of all configs or secrets.
    pub fn files(&self, kind: &str) -> Vec<String> {
        names(&self.0[kind]).iter().map(|name| self.0[kind][name.as_str()]["file"].as_str().unwrap().to_owned()).collect()
    }

    fn of(&self, service: &str, key: &str) -> &Yaml {
        merged(&self.0["services"][service], key)
    }
}

/// A key of a mapping, or of those that it takes in by `<<`.
fn merged<'a>(mapping: &'a Yaml, key: &str) -> &'a Yaml {
    let (own, base) = (&mapping[key], &mapping["<<"]);
    if own.is_badvalue() && !base.is_badvalue() { merged(base, key) } else { own }
}

fn names(mapping: &Yaml) -> Vec<String> {
    mapping.as_hash().into_iter().flatten().map(|(name, _)| name.as_str().unwrap().to_owned()).collect()
}

fn texts(list: &Yaml) -> Vec<String> {
    list.as_vec().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}
